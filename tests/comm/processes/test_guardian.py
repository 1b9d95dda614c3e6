"""The guardian kills process groups when their supervisor is killed, and only then."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import psutil
from processes import PATIENCE, wait_until

from rankmesh.comm.processes.guardian import Guardian


def group() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "60"], start_new_session=True)


def test_a_guardian_does_nothing_when_all_ends_well() -> None:
    with group() as sleeper:
        with Guardian() as guardian:
            guardian.watch(sleeper.pid)
        assert sleeper.poll() is None
        sleeper.kill()


def test_a_guardian_that_somebody_killed_is_no_error() -> None:
    with Guardian() as guardian:
        children = psutil.Process().children()
        (shell,) = [one for one in children if "rankmesh-guardian" in one.cmdline()]
        shell.kill()
        shell.wait()
        guardian.watch(2**22 + 1)


def test_a_guardian_ends_the_groups_of_a_supervisor_that_is_gone() -> None:
    code = textwrap.dedent("""
        import os, subprocess, time
        from rankmesh.comm.processes.guardian import Guardian
        with Guardian() as guardian:
            for _ in range(3):
                sleeper = subprocess.Popen(["sleep", "300"], start_new_session=True, stdout=subprocess.DEVNULL,
                                           stderr=subprocess.DEVNULL)
                guardian.watch(sleeper.pid)
                print(sleeper.pid, flush=True)
            guardian.forget(sleeper.pid)
            os.kill(os.getpid(), 9)
    """)  # noqa: E501
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == -signal.SIGKILL
    *watched, forgotten = map(int, done.stdout.split())
    wait_until(lambda: not any(map(lives, watched)), "the sleepers to end")
    assert lives(forgotten)
    os.kill(forgotten, signal.SIGKILL)


def lives(pid: int) -> bool:
    """Whether there is such a process; the test began all of them, and its numbers are not given
    out again so soon.
    """
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
