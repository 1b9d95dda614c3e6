from __future__ import annotations

import os
import subprocess
from collections import deque
from collections.abc import Iterator
from typing import IO

import pytest

from rankmesh.comm.processes.output import Output


class Pipe:
    """A pipe whose writing end plays a rank's standard output."""

    def __init__(self) -> None:
        reading, self.fd = os.pipe()
        self.file: IO[bytes] = os.fdopen(reading, "rb")
        self.lines: list[str] = []
        self.kept: deque[str] = deque(maxlen=2)
        self.output = Output(self.file, 3, 1, self.log, self.kept)

    def log(self, rank: int, stream: int, line: str) -> None:
        assert (rank, stream) == (3, 1)
        self.lines.append(line)

    def write(self, data: bytes) -> None:
        os.write(self.fd, data)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    if not pipe.file.closed:
        pipe.output.close()
    os.close(pipe.fd)


def test_lines_come_whole_and_blank_ones_too(pipe: Pipe) -> None:
    pipe.write(b"one\n\ntw")
    assert pipe.output.read() and pipe.lines == ["one", ""]
    assert pipe.output.read() and pipe.lines == ["one", ""]
    pipe.write(b"o\r\nthree\n")
    assert pipe.output.read() and pipe.lines == ["one", "", "two", "three"]
    assert list(pipe.kept) == ["two", "three"]


def test_last_line_needs_no_end(pipe: Pipe) -> None:
    pipe.write(b"unfinished")
    pipe.output.close()
    assert pipe.lines == ["unfinished"]


def test_end_of_the_stream(pipe: Pipe) -> None:
    process = subprocess.Popen(["printf", "a\\nb"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    output = Output(process.stdout, 3, 1, pipe.log, pipe.kept)
    process.wait()
    assert output.read() and not output.read() and not output.read()
    assert pipe.lines == ["a", "b"]
    output.close()
    assert pipe.lines == ["a", "b"]


def test_what_is_no_utf_8_is_shown(pipe: Pipe) -> None:
    pipe.write(b"caf\xe9\n")
    pipe.output.read()
    assert pipe.lines == ["caf\N{REPLACEMENT CHARACTER}"]


def test_endless_line_is_cut(pipe: Pipe) -> None:
    for _ in range(10):
        pipe.write(b"x" * 10_000)
        pipe.output.read()
    assert sum(map(len, pipe.lines)) >= 65_536


def test_a_rank_that_never_stops_writing_keeps_nobody_waiting() -> None:
    lines = 0

    def log(rank: int, stream: int, line: str) -> None:
        nonlocal lines
        lines += 1

    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        output = Output(process.stdout, 0, 1, log, deque(maxlen=1))
        while not lines:
            output.read()
        output.read_all()
        process.kill()
        output.close()
    assert lines
