"""Memory of a GPU that goes to other processes, over a stand-in for CUDA's driver; on a GPU where
there is one.
"""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import sys
from collections.abc import Iterator
from contextlib import closing
from multiprocessing.connection import Connection
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
import stand_in_cuda
from stand_in_cuda import GRANULE, STATE, CUresult
from told_process import PATIENCE

from rankmesh.comm.errors import OutOfMemory, UsageError
from rankmesh.comm.host.sealed_memory import SealedMemory, map_read_only
from rankmesh.comm.sharing.attachment import Attachment
from rankmesh.comm.sharing.broker import Broker
from rankmesh.comm.sharing.cuda_memory import CudaMemory
from rankmesh.comm.sharing.device_memory import DeviceArray, Ticket
from rankmesh.comm.sharing.gpu import Gpu
from rankmesh.comm.sharing.whitelist import Whitelist

_FORK = multiprocessing.get_context("fork")
_VALUES = np.arange(1000, dtype=np.float32)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gpu]:
    for name, module in stand_in_cuda.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    yield Gpu(0)
    STATE.descriptors, STATE.failing = True, {}
    gc.collect()
    assert STATE.empty


def test_what_is_written_is_read(gpu: Gpu) -> None:
    memory = CudaMemory.create(gpu, 5000)
    assert memory.ticket == Ticket("vmm", GRANULE)
    array = DeviceArray(gpu, memory, 256, _VALUES.dtype, _VALUES.shape)
    array.write(_VALUES)
    np.testing.assert_array_equal(array.read(), _VALUES)
    assert array.pointer == memory.pointer + 256
    assert not os.get_inheritable(memory.fd)
    memory.close()
    memory.close()
    np.testing.assert_array_equal(array.read(), _VALUES)


def test_tensors_are_put_and_taken_in_torchs_stream(
    gpu: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    said: list[str] = []

    class Stream:
        cuda_stream = 7

        def synchronize(self) -> None:
            said.append("put")

        def record_event(self) -> Any:
            return SimpleNamespace(synchronize=lambda: said.append("taken"))

    monkeypatch.setattr(torch.cuda, "current_stream", lambda number: Stream())
    memory = CudaMemory.create(gpu, 5000)
    memory.settle()
    given, found = torch.arange(8, dtype=torch.uint8), torch.empty(8, dtype=torch.uint8)
    memory.put(256, given)
    memory.take(256, found)
    memory.settle()
    assert (found.tolist(), said) == (given.tolist(), ["put", "taken"])
    memory.take(0, found[:0])
    memory.close()


def test_an_array_behind_the_end_is_refused(gpu: Gpu) -> None:
    memory = CudaMemory.create(gpu, 5000)
    with pytest.raises(ValueError, match="ends behind"):
        DeviceArray(gpu, memory, GRANULE - 8, _VALUES.dtype, _VALUES.shape)
    memory.close()


def _attach(pipe: Connection, handle: int, device: str) -> None:
    """Read what the owner hands over, try to write to it, and say what happened; then wait, and
    read again.
    """
    try:
        with closing(Attachment(handle, "model", device)) as held:
            ticket = msgspec.msgpack.decode(map_read_only(held.fds[0]), type=Ticket)
            memory = CudaMemory.open(Gpu(0), ticket, held.fds[-1])
        array = DeviceArray(Gpu(0), memory, 0, _VALUES.dtype, _VALUES.shape)
        pipe.send(array.read())
        try:
            array.write(_VALUES)
            pipe.send("written")
        except UsageError as error:
            pipe.send(str(error))
        pipe.recv()
        pipe.send(array.read())
    except UsageError as error:
        pipe.send(str(error))


def _shared(gpu: Gpu, memory: CudaMemory, device: str) -> tuple[Any, Connection, Broker]:
    """A process that attaches to `memory`, for the GPU `device`."""
    ticket = msgspec.msgpack.encode(memory.ticket)
    file = SealedMemory("ticket", len(ticket))
    file.bytes[:] = ticket
    broker = Broker(
        Whitelist(), "model", gpu.name, [file.fd, *([memory.fd] if memory.fd >= 0 else [])]
    )
    broker.start()
    mine, theirs = _FORK.Pipe()
    process = _FORK.Process(target=lambda: theirs.recv() and _attach(theirs, broker.handle, device))
    process.start()
    assert process.pid
    broker.whitelist.allow(process.pid)
    mine.send("go")
    return process, mine, broker


def _answer(pipe: Connection) -> Any:
    assert pipe.poll(PATIENCE)
    return pipe.recv()


def test_a_listed_process_maps_it_for_reading_and_keeps_it(gpu: Gpu) -> None:
    memory = CudaMemory.create(gpu, _VALUES.nbytes)
    memory.write(0, _VALUES)
    process, pipe, broker = _shared(gpu, memory, gpu.name)
    np.testing.assert_array_equal(_answer(pipe), _VALUES)
    assert "cuMemcpyHtoD failed with CUDA_ERROR_INVALID_VALUE" in _answer(pipe)
    memory.write(0, _VALUES * 2)
    broker.close()
    memory.close()
    del memory
    pipe.send("go on")
    np.testing.assert_array_equal(_answer(pipe), _VALUES * 2)
    process.join()


def test_another_gpu_is_refused(gpu: Gpu) -> None:
    memory = CudaMemory.create(gpu, _VALUES.nbytes)
    process, pipe, broker = _shared(gpu, memory, "gpu 00ff")
    assert f"the owner's weights are on {gpu.name}, this model is on gpu 00ff" in _answer(pipe)
    process.join()
    broker.close()
    memory.close()


def test_a_gpu_without_descriptors_uses_legacy_handles_and_says_so(
    gpu: Gpu, caplog: pytest.LogCaptureFixture
) -> None:
    STATE.descriptors = False
    with caplog.at_level(logging.WARNING, logger="rankmesh"):
        memory = CudaMemory.create(gpu, _VALUES.nbytes)
    assert "shared by legacy CUDA IPC, which lets a listed process write to it" in caplog.text
    assert (memory.ticket.kind, len(memory.ticket.handle), memory.fd) == ("ipc", 64, -1)
    memory.write(0, _VALUES)
    process, pipe, broker = _shared(gpu, memory, gpu.name)
    np.testing.assert_array_equal(_answer(pipe), _VALUES)
    assert _answer(pipe) == "written"  # what docs/security.md says of it
    pipe.send("go on")
    _answer(pipe)
    process.join()
    broker.close()


def test_a_legacy_handle_of_another_length(gpu: Gpu) -> None:
    with pytest.raises(UsageError, match="a CUDA IPC handle of 3 bytes, expected 64"):
        CudaMemory.open(gpu, Ticket("ipc", 8, b"abc"), -1)


@pytest.mark.parametrize(
    "function",
    [
        "cuMemCreate",
        "cuMemExportToShareableHandle",
        "cuMemAddressReserve",
        "cuMemMap",
        "cuMemSetAccess",
        "cuMemGetAllocationGranularity",
    ],
)
def test_a_failed_step_leaves_nothing(gpu: Gpu, function: str) -> None:
    before = len(os.listdir("/proc/self/fd"))
    STATE.failing = {function: CUresult.CUDA_ERROR_UNKNOWN}
    with pytest.raises(
        UsageError, match=f"GPU 0: {function} failed with CUDA_ERROR_UNKNOWN. Install rankmesh.gpu."
    ):
        CudaMemory.create(gpu, 5000)
    assert STATE.empty
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    "function",
    ["cuMemImportFromShareableHandle", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess"],
)
def test_a_failed_import_leaves_nothing(gpu: Gpu, function: str) -> None:
    memory = CudaMemory.create(gpu, 5000)
    handles, ranges = len(STATE.handles), len(STATE.ranges)
    STATE.failing = {function: CUresult.CUDA_ERROR_UNKNOWN}
    with pytest.raises(UsageError, match=function):
        CudaMemory.open(gpu, memory.ticket, memory.fd)
    assert (len(STATE.handles), len(STATE.ranges)) == (handles, ranges)
    memory.close()


def test_no_memory_left(gpu: Gpu) -> None:
    STATE.failing = {"cuMemCreate": CUresult.CUDA_ERROR_OUT_OF_MEMORY}
    with pytest.raises(OutOfMemory, match="GPU 0 has no memory left .cuMemCreate."):
        CudaMemory.create(gpu, 5000)


def test_a_number_that_is_no_gpu(gpu: Gpu) -> None:
    with pytest.raises(
        UsageError, match="GPU 7: cuDeviceGet failed with CUDA_ERROR_INVALID_DEVICE"
    ):
        Gpu(7)


def test_without_cuda_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(
        UsageError, match=r"cuda-python, and it cannot be imported \(.*Install rankmesh\[gpu\]"
    ):
        Gpu(0)


def test_without_a_driver(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """cuda-python is there, and raises an error of its own at the first call."""

    def missing(flags: int) -> None:
        raise RuntimeError("Failed to dlopen libcuda.so.1")

    monkeypatch.setattr(sys.modules["cuda.bindings.driver"], "cuInit", missing)
    with pytest.raises(
        UsageError,
        match="needs NVIDIA's driver, which cannot be used here: Failed to dlopen libcuda",
    ):
        Gpu(0)
