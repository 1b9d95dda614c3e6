"""Ranks that do not come to be ready: the constructor says which, how far it came and why, and
leaves nothing.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from leftovers import nothing_left
from moody import moody
from processes import wait_until

from rankmesh import ModelError, Orchestrator, RankDied, RankHung, ShardMismatch


@contextmanager
def when_it_starts(rank: int, act: Callable[[psutil.Process], None]) -> Iterator[None]:
    """Inside, `act` is done to the process of a rank as soon as there is one."""

    def find() -> list[psutil.Process]:
        return [
            child
            for child in psutil.Process().children()
            if child.cmdline()[-1:] == [f"rank={rank}"]
        ]

    def watch() -> None:
        wait_until(find, f"rank {rank} to be started")
        act(find()[0])

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def test_a_rank_that_dies_while_it_starts_is_named(tmp_path: Path) -> None:
    path = moody(tmp_path, 2)
    with (
        nothing_left(),
        when_it_starts(1, psutil.Process.kill),
        pytest.raises(
            RankDied,
            match=r"rank 1 of 2 on .* was killed by SIGKILL while it was '(spawned|imported)'",
        ),
    ):
        Orchestrator(path)


def test_a_rank_that_is_stopped_while_it_starts_is_named_with_its_stage(tmp_path: Path) -> None:
    path = moody(tmp_path, 2)
    with (
        nothing_left(),
        when_it_starts(1, psutil.Process.suspend),
        pytest.raises(
            RankHung,
            match=r"rank 1 of 2 on .* was not ready within .* s: it is '(spawned|imported)' and not yet "  # noqa: E501
            r"'(imported|joined)'; it is stopped by a signal",
        ),
    ):
        Orchestrator(path, hang_timeout=4)


STUCK = """
import sys, time

def hang(event, arguments):
    if event == "open" and str(arguments[0]).endswith("moody1.onnx"):
        time.sleep(600)

if "rankmesh.worker.serving.rank_loop" in sys.orig_argv:
    sys.addaudithook(hang)
"""
"""Has ranks wait for the file of rank 1, as a file system that does not answer may."""


def test_a_rank_that_is_stuck_while_it_starts_is_named_and_not_the_one_that_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = moody(tmp_path, 2)
    (tmp_path / "sitecustomize.py").write_text(STUCK)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with (
        nothing_left(),
        pytest.raises(
            RankHung,
            match=r"rank 1 of 2 on .* was not ready within .* s: it is 'imported' and not yet 'joined'; "  # noqa: E501
            r"if it only needs more time, give a larger start_timeout",
        ) as hung,
    ):
        Orchestrator(path, start_timeout=8)
    assert "Last lines of rank 1" in str(hung.value) and "in read_build" in str(
        hung.value
    )  # where it was


def test_shards_that_are_missing_are_named_before_anything_is_started(tmp_path: Path) -> None:
    with (
        nothing_left(),
        pytest.raises(ModelError, match="moody2.onnx: no such file, needed by one of 3 ranks"),
    ):
        Orchestrator(moody(tmp_path, 2), ranks=3)


def test_shards_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    moody(tmp_path)
    os.rename(tmp_path / "moody0.onnx", tmp_path / "alone.onnx")
    path = moody(tmp_path, 2)
    os.replace(tmp_path / "alone.onnx", path.format(rank=1))
    with nothing_left(), pytest.raises(ShardMismatch, match="moody"):
        Orchestrator(path)


def test_a_replica_that_cannot_start_ends_the_others(tmp_path: Path) -> None:
    path = moody(tmp_path)
    Path(path.format(rank=0)).write_bytes(b"no model")
    with nothing_left(), pytest.raises(ModelError, match="moody0.onnx"):
        Orchestrator(path, replicas=2)


class Interrupted(BaseException):
    """What a program's own handler of SIGINT may raise."""


def test_an_interrupted_start_leaves_nothing(tmp_path: Path) -> None:
    """As after Ctrl-C, when a KeyboardInterrupt comes out of whatever the main thread is doing."""
    path = moody(tmp_path)

    def interrupt(*_: object) -> None:
        raise Interrupted

    def press(_: psutil.Process) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        with nothing_left(), when_it_starts(0, press), pytest.raises(Interrupted):
            Orchestrator(path)
    finally:
        signal.signal(signal.SIGINT, before)
