"""Ranks of one host that meet by a key: real processes, and what is left behind of them."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from processes import PATIENCE, segments, wait_until

from rankmesh.comm.transport.channel import Channel
from rankmesh.comm.transport.local_socket import socket_path
from rankmesh.comm.transport.messages import Failed, Join, encode
from rankmesh.comm.transport.newcomers import CROWDED

PROGRAM = Path(__file__).parents[2] / "support" / "meeting_rank.py"
SOON = 6.0
"""Seconds that ranks wait for each other where a test wants this to pass."""


class Member:
    """A process of meeting_rank.py."""

    def __init__(self, rank: int, world_size: int, key: str, timeout: float) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), json.dumps([rank, world_size, key, timeout])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            bufsize=1,
        )
        self.pid = self.process.pid

    def tell(self, line: str) -> None:
        """Have it do something; `answer` has the result."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")

    def answer(self) -> Any:
        """What came of what it was told."""
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], PATIENCE)[0], "no answer"
        return json.loads(self.process.stdout.readline() or "null")

    def end(self) -> int:
        """Let it come to the end of its program, and wait for that."""
        self.process.communicate(timeout=PATIENCE)
        return self.process.returncode

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


Start = Callable[..., list[Member]]


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The runtime folder of the ranks."""
    with tempfile.TemporaryDirectory(prefix="rm") as path:
        monkeypatch.setenv("XDG_RUNTIME_DIR", path)
        yield Path(path) / f"rankmesh-{os.getuid()}"


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Start ranks, by default all of `world_size`; they end with the test, which looks for
    leftovers in /dev/shm.
    """
    before, started = segments(), []

    def start(
        world_size: int, *ranks: int, key: str = "key", timeout: float = 30.0
    ) -> list[Member]:
        members = [Member(rank, world_size, key, timeout) for rank in ranks or range(world_size)]
        started.extend(members)
        return members

    yield start
    for member in started:
        member.process.kill()
        member.process.communicate()
    assert segments() <= before


def sockets(folder: Path) -> list[str]:
    return os.listdir(folder)


def met(members: list[Member]) -> list[Member]:
    assert [member.answer() for member in members] == ["met"] * len(members)
    return members


def with_server_first(start: Start, world_size: int, **more: Any) -> list[Member]:
    """All ranks, met; rank 0 serves, as nobody else came before it listened."""
    [first] = start(world_size, 0, **more)
    folder = Path(os.environ["XDG_RUNTIME_DIR"]) / f"rankmesh-{os.getuid()}"
    wait_until(lambda: folder.exists() and sockets(folder), "rank 0 to listen")
    return met([first, *start(world_size, *range(1, world_size), **more)])


def test_ranks_exchange_in_rank_order_and_leave_nothing(start: Start, folder: Path) -> None:
    members = met(start(3))
    for round_number in range(2):
        for rank, member in enumerate(members):
            member.tell(f"exchange {rank}.{round_number}")
        for member in members:
            assert member.answer() == [f"{rank}.{round_number}" for rank in range(3)]
    assert [member.end() for member in members] == [0, 0, 0]
    assert sockets(folder) == []


def test_jobs_with_other_keys_do_not_meet(start: Start, folder: Path) -> None:
    jobs = [met(start(2, key=key)) for key in ("one", "other")]
    assert len(sockets(folder)) == 2
    for members in jobs:
        for member in members:
            member.tell(f"exchange {member.pid}")
        for member in members:
            assert member.answer() == [str(other.pid) for other in members]


def test_second_job_with_the_key_is_refused_with_the_pids_of_the_first(start: Start) -> None:
    members = met(start(2))
    for intruder in start(2):
        [(kind, text)] = intruder.answer().items()
        assert kind == "UsageError"
        assert "of this job runs already" in text and "must wait until the first ends" in text
        for rank, member in enumerate(members):
            assert f"rank {rank} is process {member.pid}" in text
    for member in members:  # and the first goes on
        member.tell("exchange ")
    assert [member.answer() for member in members] == [["", ""]] * 2


def test_rank_that_comes_again_while_the_others_run_is_refused(start: Start) -> None:
    zero, one = with_server_first(start, 2)
    one.end()
    [(kind, text)] = start(2, 1)[0].answer().items()
    assert (
        kind == "UsageError"
        and f"rank 1 of this job ran already (rank 0 is process {zero.pid})" in text
    )


def test_next_job_waits_for_the_end_of_the_last(start: Start) -> None:
    zero, one = with_server_first(start, 2)
    one.end()
    [next_one] = start(2, 1)
    zero.end()
    met([next_one, *start(2, 0)])


def test_job_of_another_size_is_refused(start: Start) -> None:
    with_server_first(start, 2)
    [(kind, text)] = start(3, 2)[0].answer().items()
    assert kind == "UsageError" and "rank 2 of 3 came to a job of 2 ranks" in text


def test_absent_rank_is_named_to_all_others(start: Start, folder: Path) -> None:
    for member in start(
        3, 0, 1, timeout=SOON
    ):  # from the first rank's coming; the second takes its time
        assert member.answer() == {
            "RankFailed": (
                f"the ranks waited {SOON:g} s for each other: rank 2 never came (expected on here)"
            )
        }
        assert member.end() == 1
    assert sockets(folder) == []


@pytest.mark.parametrize("victim", [0, 1])
def test_killed_rank_is_named_at_once(start: Start, folder: Path, victim: int) -> None:
    members = with_server_first(start, 3)
    waiting = [member for rank, member in enumerate(members) if rank != victim]
    members[victim].tell("enter BUILDING")
    assert members[victim].answer() is None
    for member in waiting:
        member.tell("exchange ")
    members[victim].kill()
    for member in waiting:
        [(kind, text)] = member.answer().items()
        assert kind == "RankFailed" and f"rank {victim} (process {members[victim].pid})" in text
        assert re.search("is gone" if victim == 0 else "ended while it (is|was) BUILDING", text)
        assert member.end() == 1
    assert sockets(folder) == []  # the socket of a killed server too


def test_rank_that_ends_early_is_named(start: Start) -> None:
    zero, one = with_server_first(start, 2)
    assert one.end() == 0
    zero.tell("exchange ")
    assert f"rank 1 (process {one.pid}) ended" in zero.answer()["RankFailed"]


def test_rank_that_raises_is_named_and_nothing_is_left(start: Start, folder: Path) -> None:
    zero, one = with_server_first(start, 2)
    one.tell("exchange ")
    zero.tell("raise what I please")
    assert (
        f"rank 0 (process {zero.pid}), which brings the ranks together, is gone"
        in one.answer()["RankFailed"]
    )
    assert zero.end() == 1 and one.end() == 1
    assert sockets(folder) == []


def test_stopped_rank_is_named_after_the_deadline(start: Start) -> None:
    zero, one = with_server_first(start, 2, timeout=SOON)
    one.process.send_signal(signal.SIGSTOP)
    zero.tell("exchange ")
    assert zero.answer()["RankFailed"].startswith(
        f"the ranks waited {SOON:g} s for each other: rank 1 is STARTING"
    )


def test_stopped_server_is_named_after_the_deadline(start: Start) -> None:
    zero, one = with_server_first(start, 2, timeout=SOON)
    zero.process.send_signal(signal.SIGSTOP)
    one.tell("exchange ")
    newcomer = start(2, 1, timeout=SOON)[0]
    said = one.answer()["RankFailed"]
    assert f"rank 0 (process {zero.pid}), which brings the ranks together, does not answer" in said
    assert (
        f"process {zero.pid}, which serves this job, does not answer"
        in newcomer.answer()["RankFailed"]
    )


def test_socket_of_a_killed_job_is_taken_over(start: Start, folder: Path) -> None:
    for member in met(start(2)):
        member.kill()
    assert len(sockets(folder)) == 1
    members = met(start(2))
    assert [member.end() for member in members] == [0, 0]
    assert sockets(folder) == []


def test_forked_child_does_not_keep_the_job_alive(start: Start) -> None:
    members = with_server_first(start, 2)
    members[0].tell("fork")
    child = members[0].answer()
    try:
        for member in members:
            member.process.kill()
            member.process.wait()
        met(start(2))
    finally:
        os.kill(child, signal.SIGKILL)


def test_failed_job_does_not_take_the_socket_of_the_next(start: Start, folder: Path) -> None:
    """A process may live on after its job has failed, while another job with the key begins."""
    [lonely] = start(2, 0, timeout=SOON)
    assert "rank 1 never came" in lonely.answer()["RankFailed"]
    members = met(start(2))
    lonely.end()
    assert len(sockets(folder)) == 1
    assert [member.end() for member in members] == [0, 0]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start a process of another user")
def test_another_user_is_not_let_in(start: Start, folder: Path) -> None:
    with_server_first(start, 2)
    [name] = sockets(folder)
    folder.parent.chmod(0o755)
    folder.chmod(0o755)
    (folder / name).chmod(0o666)
    code = (
        "import socket,sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); "
        "sys.exit(len(s.recv(1)))"
    )
    done = subprocess.run(
        ["/usr/bin/env", "python3", "-I", "-c", code, str(folder / name)],
        user=65534,
        timeout=PATIENCE,
        capture_output=True,
        env={"PATH": "/usr/bin:/bin"},
    )
    if done.returncode in (126, 127):
        pytest.skip("no Python that another user may start")
    assert done.returncode == 0, done.stderr  # the connection was closed without a word


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_server_of_another_user_is_refused(start: Start, folder: Path) -> None:
    folder.mkdir(0o700)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(socket_path("key"))
    theirs = os.fork()
    if not theirs:
        try:
            os.setuid(65534)
            listener.listen()
            signal.pause()
        finally:
            os._exit(1)
    try:
        wait_until(
            lambda: bool(listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)),
            "it to listen",
        )
        [member] = start(2, 0)
        assert (
            f"process {theirs}, which serves this job, belongs to user 65534, expected 0"
            in (member.answer()["UsageError"])
        )
    finally:
        os.kill(theirs, signal.SIGKILL)
        os.waitpid(theirs, 0)
        listener.close()


def test_a_process_that_is_refused_and_reads_nothing_holds_up_no_rank(
    start: Start, folder: Path
) -> None:
    """Its connection ends with the first refusal, so the serving rank never waits until it takes
    more of them.
    """
    members = with_server_first(start, 2)
    packet = encode(Join(0, 3))
    with socket.socket(socket.AF_UNIX) as flood:
        flood.settimeout(PATIENCE)
        flood.connect(socket_path("key"))
        flood.sendall(2 * (struct.pack("<Q", len(packet)) + packet))
        said = b""
        while data := flood.recv(4096):
            said += data
    assert said.count(b"came to a job of 2 ranks") == 1
    for member in members:
        member.tell("exchange x")
    assert [member.answer() for member in members] == [["x", "x"]] * 2


def test_silent_connections_make_room_for_ranks_and_are_told_why(
    start: Start, folder: Path
) -> None:
    members = start(2, 0)
    wait_until(lambda: folder.exists() and sockets(folder), "rank 0 to listen")
    with ExitStack() as crowd:
        silent = [crowd.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(200)]
        for one in silent:
            one.settimeout(PATIENCE)
            one.connect(socket_path("key"))
        members += start(2, 1)
        for member in met(members):
            member.tell("exchange x")
        assert [member.answer() for member in members] == [["x", "x"]] * 2
        for one in silent[:100]:
            refused, _ = Channel(one).receive_with_fds()
            assert isinstance(refused, Failed) and CROWDED in refused.text
