"""Readers keep the version that they compute with; the owner sees who does."""

from __future__ import annotations

import mmap
import multiprocessing
import os
from multiprocessing.connection import Connection

import pytest

from rankmesh.comm.sharing.lease import Lease, barrier, become_reader

_ROUNDS = 2000


def test_a_lease_is_held_while_the_reader_computes() -> None:
    fd, owner = Lease.make()
    reader = Lease(fd)
    become_reader()
    current = memoryview(bytearray(8)).cast("Q")
    current[0] = 7
    assert not owner.holds_older(100)
    with reader.hold(current) as version:
        assert version == 7
        assert owner.holds_older(8)
        assert not owner.holds_older(7)
    assert not owner.holds_older(100)
    os.close(fd)


def test_what_is_no_lease() -> None:
    fd = os.memfd_create("loose")
    with pytest.raises(ValueError, match="is no lease"):
        Lease(fd)
    os.close(fd)


def _read(fd: int, pages: int, pipe: Connection) -> None:
    """Hold, then see whether what the version stands for changes meanwhile: the owner writes the
    version itself.
    """
    become_reader()
    words = memoryview(mmap.mmap(pages, 4096)).cast("Q")
    lease, torn = Lease(fd), 0
    pipe.send("ready")
    while words[3] == 0:
        with lease.hold(words) as version:
            first = words[1 + version % 2]
            torn += any(words[1 + version % 2] != first for _ in range(20)) or first != version
    pipe.send(torn)


def test_the_owner_never_overwrites_what_a_reader_holds() -> None:
    """Two buffers in turn, written as soon as the leases allow it; a reader that saw one change
    would tell.
    """
    become_reader()
    pages = os.memfd_create("pages")
    os.ftruncate(pages, 4096)
    words = memoryview(mmap.mmap(pages, 4096)).cast("Q")
    fd, lease = Lease.make()
    mine, theirs = multiprocessing.get_context("fork").Pipe()
    reader = multiprocessing.get_context("fork").Process(target=_read, args=(fd, pages, theirs))
    reader.start()
    assert mine.recv() == "ready"
    for version in range(1, _ROUNDS):
        while lease.holds_older(version - 1):
            os.sched_yield()
        words[1 + version % 2] = version
        words[0] = version
        barrier()
    words[3] = 1
    assert mine.recv() == 0
    reader.join()
    os.close(fd)
    os.close(pages)
