"""Lists of processes: who is on one is known by number and start time."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import pytest

from rankmesh.comm.host.process_identity import ProcessIdentity
from rankmesh.comm.sharing.whitelist import Whitelist, parse_pids


@pytest.mark.parametrize(
    ("text", "pids"),
    [
        ("4711", [4711]),
        ("0, 123, 124", [0, 123, 124]),
        ("1,2,", [1, 2]),
        ("", []),
        ("007", [7]),
    ],
)
def test_lists_that_users_write(text: str, pids: list[int]) -> None:
    assert parse_pids(text) == pids


@pytest.mark.parametrize(
    "text", [",", "1;2", "1,,2", "-1", "a", "1 2", "1,2,,", " 1", "٣ x", "4194305"]
)
def test_lists_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match=f"got '?{text.strip() if text == '4194305' else ''}"):
        parse_pids(text)


def test_a_living_process_is_listed_and_revoked() -> None:
    whitelist = Whitelist([0, os.getpid()])
    assert whitelist.missing == []
    assert whitelist.pids == [os.getpid()]
    assert whitelist.permits(os.getpid())
    assert not whitelist.permits(1)
    whitelist.revoke(os.getpid())
    assert not whitelist.permits(os.getpid())


def test_a_process_that_ended_is_no_longer_permitted() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    whitelist = Whitelist([child.pid])
    assert whitelist.permits(child.pid)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, and its number still taken
    assert not whitelist.permits(child.pid)
    child.communicate()
    assert not whitelist.permits(child.pid)
    assert Whitelist([child.pid]).missing == [child.pid]


def test_another_process_under_the_same_number_is_not_the_listed_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kernel gives a number again only after thousands of others, so the listed start time is
    moved instead.
    """
    monkeypatch.setattr(os, "pidfd_open", _no_descriptor)
    whitelist = Whitelist([os.getpid()])
    assert whitelist.permits(os.getpid())
    me = ProcessIdentity.of(os.getpid())
    assert me is not None
    monkeypatch.setattr(
        ProcessIdentity, "of", classmethod(lambda cls, pid: me._replace(started=me.started + 1))
    )
    assert not whitelist.permits(os.getpid())


def _no_descriptor(pid: int) -> int:
    raise OSError(errno.EMFILE, "Too many open files")


@pytest.mark.parametrize("descriptors", [True, False], ids=["by pidfd", "by start time"])
def test_ends_are_noticed_either_way(monkeypatch: pytest.MonkeyPatch, descriptors: bool) -> None:
    if not descriptors:
        monkeypatch.setattr(os, "pidfd_open", _no_descriptor)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    whitelist = Whitelist([child.pid])
    assert whitelist.permits(child.pid)
    child.communicate(b"")
    assert not whitelist.permits(child.pid)


def test_who_takes_a_number_over_while_it_is_listed_is_not_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between the look at the start time and the pidfd's opening."""
    me = ProcessIdentity.of(os.getpid())
    assert me is not None
    found = iter([me, me._replace(started=me.started + 1)])
    monkeypatch.setattr(ProcessIdentity, "of", classmethod(lambda cls, pid: next(found)))
    assert Whitelist([os.getpid()]).missing == [os.getpid()]


def test_lists_leave_no_descriptors() -> None:
    before = len(os.listdir("/proc/self/fd"))
    whitelist = Whitelist([os.getpid()])
    for _ in range(5):
        whitelist.allow(os.getpid())
    assert len(os.listdir("/proc/self/fd")) == before + 1
    whitelist.clear()
    assert len(os.listdir("/proc/self/fd")) == before
