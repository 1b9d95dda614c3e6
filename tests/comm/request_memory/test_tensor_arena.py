"""The arena of requests: large tensors in large pages, and where its file has them."""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rankmesh.comm.errors import OutOfMemory
from rankmesh.comm.host.aligned_mapping import LARGE_PAGE
from rankmesh.comm.request_memory.owned_arena import OwnedArena, Region
from rankmesh.comm.request_memory.tensor_arena import TensorArena, file_place

pytestmark = pytest.mark.pure

BYTE = np.dtype(np.uint8)
SIZE = 4 * LARGE_PAGE


@pytest.fixture
def arena() -> Iterator[OwnedArena]:
    made = OwnedArena(1 << 30, 1 << 30)
    yield made
    made.close()


def filled(region: Region, value: int) -> np.ndarray:
    found = region.array(0, BYTE, (region.size,))
    found[:] = value
    return found


def large(array: np.ndarray) -> int:
    """Bytes in large pages of the mapping of this process that has an array."""
    wanted, inside = array.__array_interface__["data"][0], False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if span := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            inside = int(span[1], 16) <= wanted < int(span[2], 16)
        elif inside and line.startswith("ShmemPmdMapped:"):
            return int(line.split()[1]) << 10
    raise AssertionError("no mapping has the array")


def require_large_pages() -> None:
    probe = OwnedArena(1 << 30, 1 << 30)
    found = large(filled(probe.allocate(SIZE), 1))
    probe.close()
    if not found:
        pytest.skip("this kernel gives no pages of 2 MiB on demand (Linux 6.1)")


def test_a_large_tensor_is_in_large_pages_again_after_they_were_given_back(
    arena: OwnedArena,
) -> None:
    require_large_pages()
    small = filled(arena.allocate(5000), 3)
    for _ in range(2):
        region = arena.allocate(SIZE)
        tensor = filled(region, 7)
        assert large(tensor) >= SIZE
        assert (tensor == 7).all()
        del region, tensor
        arena.trim()
        assert os.fstat(arena.fd).st_blocks * 512 < LARGE_PAGE
    assert (small == 3).all()


def test_a_rank_maps_large_pages_as_such(arena: OwnedArena) -> None:
    require_large_pages()
    region = arena.allocate(SIZE)
    filled(region, 7)
    rank = TensorArena(os.dup(arena.fd))
    found = rank.view(region.offset, BYTE, (SIZE,), SIZE)
    assert (found == 7).all() and large(found) >= SIZE
    rank.close()


def test_pages_that_others_have_written_keep_their_bytes(arena: OwnedArena) -> None:
    sizes = [3000, LARGE_PAGE // 2, LARGE_PAGE + 4096, 3 * LARGE_PAGE, 9000, 2 * LARGE_PAGE - 4096]
    kept = [filled(arena.allocate(size), value) for value, size in enumerate(sizes)]
    gone = filled(arena.allocate(5 * LARGE_PAGE), 99)
    del gone
    kept += [filled(arena.allocate(size), value + 10) for value, size in enumerate(sizes)]
    for value, tensor in zip([*range(6), *range(10, 16)], kept, strict=True):
        assert (tensor == value).all()


def test_the_file_has_a_tensor_where_its_place_says_also_once_the_arena_is_closed() -> None:
    arena = OwnedArena(1 << 30, 1 << 30)
    region = arena.allocate(SIZE)
    tensor = region.array(4096, np.dtype(np.float32), (1000, 5))
    tensor[...] = np.arange(5000).reshape(1000, 5)
    arena.close()
    data = tensor[10:20].reshape(-1).view(np.uint8).data
    place = file_place(data)
    assert place is not None
    assert os.pread(place.descriptor, len(data), place.offset) == data.tobytes()


def test_other_memory_has_no_place(arena: OwnedArena) -> None:
    tensor = filled(arena.allocate(5000), 1)
    for other in (b"bytes", np.zeros(9, np.uint8).data, tensor[::2].copy().data):
        assert file_place(memoryview(other)) is None


def test_a_limit_of_file_sizes_is_told_as_scarce_memory(arena: OwnedArena) -> None:
    _, hard = before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (SIZE, hard))
    try:
        with pytest.raises(OutOfMemory, match=f"may write {SIZE} bytes to a file or to shared"):
            arena.allocate(2 * SIZE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    arena.allocate(2 * SIZE)
