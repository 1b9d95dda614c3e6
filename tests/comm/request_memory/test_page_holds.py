"""Registered pages: their accounting over a stand-in for CUDA's driver, and holds of processes."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import stand_in_cuda
from stand_in_cuda import STATE, CUresult

from rankmesh.comm.request_memory.owned_arena import OwnedArena
from rankmesh.comm.request_memory.page_holds import hold_pages
from rankmesh.comm.request_memory.tensor_arena import TensorArena
from rankmesh.comm.sharing.cuda_pages import CudaPages
from rankmesh.comm.sharing.gpu import Gpu

U8 = np.dtype(np.uint8)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gpu]:
    for name, module in stand_in_cuda.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    yield Gpu(0)
    STATE.failing = {}
    STATE.registered.clear()


@pytest.fixture
def owned() -> Iterator[OwnedArena]:
    arena = OwnedArena(0, 1 << 30)
    yield arena
    arena.close()


@pytest.mark.pure
def test_the_mapping_of_a_rank_is_registered_and_that_of_a_longer_file_instead(
    gpu: Gpu, owned: OwnedArena
) -> None:
    arena = TensorArena(os.dup(owned.fd))
    arena.register(CudaPages(gpu))
    ((first, size),) = STATE.registered.items()
    assert size == os.fstat(arena.fd).st_size
    region = owned.allocate(2 * size)
    view = arena.view(region.offset, U8, (1,), 1)  # before the region: the file is mapped anew
    whole = arena.view(region.offset + 2 * size - 1, U8, (1,), 1)
    ((second, longer),) = STATE.registered.items()
    assert second != first and longer == os.fstat(arena.fd).st_size >= 3 * size
    assert second <= whole.__array_interface__["data"][0] < second + longer
    del view
    arena.close()


@pytest.mark.pure
def test_a_driver_that_refuses_is_told_of_once(
    gpu: Gpu, owned: OwnedArena, caplog: pytest.LogCaptureFixture
) -> None:
    STATE.failing = {"cuMemHostRegister": CUresult.CUDA_ERROR_INVALID_VALUE}
    arena = TensorArena(os.dup(owned.fd))
    with caplog.at_level(logging.WARNING, logger="rankmesh"):
        arena.register(CudaPages(gpu))
        offset = owned.allocate(1 << 23).offset
        arena.view(offset, U8, (1,), 1 << 23)[:] = 1
    arena.close()
    assert len(caplog.records) == 1 and not STATE.registered
    assert "is not registered with GPU 0, and tensors are copied once more" in caplog.text


_HOLDER = """
import sys
from rankmesh.comm.request_memory.page_holds import hold_pages
hold_pages(int(sys.argv[1]), int(sys.argv[2]))
print("held", flush=True)
sys.stdin.read()
"""


def test_pages_that_a_process_holds_stay_in_the_file_until_it_ends(owned: OwnedArena) -> None:
    region = owned.allocate(1 << 20)
    offset = region.offset
    region.array(0, U8, (1 << 20,))[:] = 7
    del region
    holder = subprocess.Popen(
        [sys.executable, "-P", "-c", _HOLDER, str(owned.fd), str(1 << 22)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=[owned.fd],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / ".types")},
    )
    with holder:
        assert holder.stdout and holder.stdout.readline() == b"held\n"
        owned.trim()
        assert _bytes(owned, offset) == {7}
        holder.send_signal(signal.SIGKILL)
    owned.trim()
    assert _bytes(owned, offset) == {0}


@pytest.mark.pure
def test_a_process_may_take_pages_that_it_holds_itself(owned: OwnedArena) -> None:
    hold_pages(owned.fd, 1 << 22)
    owned.trim()


def _bytes(arena: OwnedArena, offset: int) -> set[int]:
    return set(arena.view(offset, U8, (1 << 20,), 1 << 20).tolist())
