"""Forked processes: they have what a program that is started has, and nothing else."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence

import pytest
from leftovers import nothing_left

from rankmesh.comm.processes.forked_process import ForkedProcess


def forked(
    program: Callable[[], object],
    environment: Mapping[str, str] | None = None,
    inherited: Sequence[int] = (),
) -> ForkedProcess:
    return ForkedProcess(program, environment or {}, inherited, lambda: None)


def test_a_child_writes_and_ends() -> None:
    def program() -> None:
        os.write(1, f"out {os.environ['WORD']}".encode())
        os.write(2, b"error")
        sys.exit(3)

    with nothing_left():
        child = forked(program, {"WORD": "said"})
        assert child.stdout.read() == b"out said" and child.stderr.read() == b"error"
        assert child.wait() == child.poll() == 3
        child.send_signal(signal.SIGTERM)  # does nothing: the number may be another's
        child.communicate()


def test_a_child_has_the_files_that_it_inherits_alone() -> None:
    kept, other = os.memfd_create("kept"), os.memfd_create("other")

    def program() -> None:
        found = [fd for fd in range(256) if os.path.exists(f"/proc/self/fd/{fd}")]
        os.write(1, str(found).encode())

    try:
        child = forked(program, inherited=[kept])
        assert child.stdout.read().decode() == str([0, 1, 2, kept])
        child.communicate()
    finally:
        os.close(kept)
        os.close(other)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_child_leads_a_session_that_can_be_killed(number: signal.Signals) -> None:
    child = forked(lambda: time.sleep(600))
    assert child.poll() is None and os.getsid(child.pid) == child.pid
    os.killpg(child.pid, number)
    child.communicate()
    assert child.poll() == -number


def test_what_a_program_raises_ends_it_with_1() -> None:
    child = forked(lambda: 1 / 0)
    assert b"ZeroDivisionError" in child.stderr.read()
    child.communicate()
    assert child.poll() == 1
