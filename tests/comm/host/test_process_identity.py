"""States of processes, as /proc tells them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from rankmesh.comm.host.process_identity import ProcessIdentity, ProcessStat, is_stopped


def test_a_process_that_runs_is_neither_stopped_nor_dead() -> None:
    stat = ProcessStat.of(os.getpid())
    assert stat is not None
    assert not (stat.stopped or stat.dead or stat.exiting)
    assert stat.exit_code == 0
    assert ProcessIdentity.of(os.getpid()) == (os.getpid(), stat.started)


def test_a_stopped_process_and_one_that_is_not_waited_for() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    os.kill(child.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
    assert is_stopped(child.pid)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    stat = ProcessStat.of(child.pid)
    assert stat is not None
    assert stat.dead
    assert stat.exit_code == -signal.SIGKILL
    assert ProcessIdentity.of(child.pid) is None
    child.communicate()
    assert ProcessStat.of(child.pid) is None
    assert not is_stopped(child.pid)
