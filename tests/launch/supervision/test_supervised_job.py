"""The supervisor with ranks that take nothing, and what is left when it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest
from launched import Launched, script
from processes import PATIENCE, wait_until

from rankmesh.comm.errors import RankFailed
from rankmesh.comm.job.rank import Rank
from rankmesh.comm.processes.rank_process import Command
from rankmesh.launch.supervision.supervised_job import SupervisedJob

LARGE = 4 << 20
"""Bytes that no socket takes at once."""


def exchanging(*then: str, timeout: float) -> SupervisedJob:
    """A job whose ranks give LARGE bytes each to an exchange; what each does then is a line of
    Python.
    """
    size = len(then)
    commands = [
        Command(
            (
                sys.executable,
                "-c",
                textwrap.dedent(f"""
        import os, signal, sys, time
        from rankmesh.comm.transport.channel import Channel
        from rankmesh.comm.job.environment import inherited_fds
        from rankmesh.comm.transport.messages import Exchange
        channel = Channel.inherited(inherited_fds(os.environ)[0])
        channel.send(Exchange(bytes({LARGE})))
        {action}
    """),
            )
        )
        for action in then
    ]
    return SupervisedJob(
        [Rank(r, size, r, size, "testhost", r) for r in range(size)],
        commands,
        timeout,
        lambda *_: None,
    )


def test_large_exchange_reaches_slow_ranks() -> None:
    check = f"assert sum(map(len, channel.receive().payloads)) == {2 * LARGE}"
    with exchanging(check, f"time.sleep(0.3); {check}", timeout=PATIENCE) as supervisor:
        assert supervisor.run() == [b"", b""]


def test_rank_that_takes_nothing_is_named_after_the_deadline() -> None:
    began = time.monotonic()
    with exchanging(
        "channel.receive()", "os.kill(os.getpid(), signal.SIGSTOP)", timeout=3
    ) as supervisor:
        with pytest.raises(
            RankFailed,
            match=r"rank 1 of 2 on testhost \(pid [0-9]+\) has taken nothing of what the "
            r"other ranks gave for 3 s",
        ):
            supervisor.run()
    assert time.monotonic() - began < PATIENCE


def test_rank_that_takes_nothing_keeps_no_other_failure_from_being_seen() -> None:
    stop = "os.kill(os.getpid(), signal.SIGSTOP)"
    with exchanging(stop, "channel.receive(); sys.exit(7)", timeout=250) as supervisor:
        with pytest.raises(RankFailed, match="rank 1 of 2 .* exited with status 7"):
            supervisor.run()
        assert supervisor.status == 7


def test_rank_that_sends_what_is_no_message_is_named() -> None:
    garbage = r"os.write(channel.fileno(), b'\x01' + bytes(7) + b'\xc1'); time.sleep(60)"
    with exchanging("channel.receive()", garbage, timeout=250) as supervisor:
        with pytest.raises(
            RankFailed, match="rank 1 of 2 on testhost.*what came over the channel is no message"
        ):
            supervisor.run()


WITH_CHILDREN = """
    import os, subprocess, sys, time
    child = subprocess.Popen(["sleep", "60"])
    print("pid", os.getpid(), flush=True)
    print("pid", child.pid, flush=True)
    time.sleep(60)
"""


def test_a_killed_launcher_leaves_nothing_that_ranks_have_started(tmp_path: Path) -> None:
    with Launched("--ranks", 2, script(tmp_path, WITH_CHILDREN)) as launched:
        launched.wait_for_ranks(4)
        launched.stop(signal.SIGKILL)
        launched.end()


def test_a_launcher_whose_whole_group_is_killed_leaves_nothing(tmp_path: Path) -> None:
    """As a shell's `kill -9 %1` does it."""
    path = script(tmp_path, WITH_CHILDREN)
    command = [sys.executable, "-m", "rankmesh", "launch", "--ranks", "1", str(path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as launcher:
        assert launcher.stdout is not None
        ranks = [psutil.Process(int(launcher.stdout.readline().split()[-1])) for _ in range(2)]
        os.killpg(launcher.pid, signal.SIGKILL)
        wait_until(lambda: not any(lives(p) for p in ranks), "the ranks to end")


def lives(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
