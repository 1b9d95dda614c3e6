"""Memory of processes, as /proc tells it."""

from __future__ import annotations

import mmap
import os

import pytest

from rankmesh.comm.host.process_memory import ProcessMemory

pytestmark = pytest.mark.pure
SIZE = 64 << 20


def seen() -> ProcessMemory:
    found = ProcessMemory.of(os.getpid())
    assert found is not None
    return found


def test_each_kind_of_memory_counts_for_itself() -> None:
    before = seen()
    assert min(before.private, before.file) > 1 << 20
    private = bytearray(os.urandom(SIZE))
    with_private = seen()
    assert with_private.private - before.private > SIZE * 0.9
    with mmap.mmap(-1, SIZE) as shared:
        shared[:] = private
        with_shared = seen()
        assert with_shared.shared - with_private.shared > SIZE * 0.9
        assert abs(with_shared.private - with_private.private) < SIZE * 0.5


def test_a_process_that_is_not_there_has_none() -> None:
    assert ProcessMemory.of(1 << 30) is None
