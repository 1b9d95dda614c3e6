"""Memory of an Ascend NPU, over a stand-in for torch_npu that shares memory of a CPU."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from rankmesh.comm.errors import UsageError
from rankmesh.comm.sharing import npu_memory
from rankmesh.comm.sharing.device_memory import DeviceArray, Ticket
from rankmesh.comm.sharing.npu_memory import NpuDevice
from rankmesh.worker.executors.torch.tensors import on_device

pytestmark = pytest.mark.pure
CPU = torch.device("cpu")


class Npu(NpuDevice):
    kind = "cpu"


@pytest.fixture
def npu(monkeypatch: pytest.MonkeyPatch) -> Npu:
    """A device whose storages are handed over as torch_npu does it, within this process."""
    shared: dict[bytes, Any] = {}

    def share(storage: Any) -> tuple[Any, ...]:
        handle = str(storage.data_ptr()).encode()
        shared[handle] = storage
        return handle, storage.nbytes(), 0, b"counter", 0, b"event", False

    def open_shared(number: int, parts: tuple[Any, ...]) -> Any:
        assert (number, parts[1:]) == (0, (16, 0, b"counter", 0, b"event", False))
        return shared[parts[0]]

    monkeypatch.setitem(sys.modules, "torch_npu", ModuleType("torch_npu"))
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "5,6")
    monkeypatch.setattr(npu_memory, "share_storage", share)
    monkeypatch.setattr(npu_memory, "open_storage", open_shared)
    monkeypatch.setattr(npu_memory, "close_to_others", lambda: None)
    return Npu(0)


def test_what_the_owner_writes_is_a_tensor_elsewhere(npu: Npu) -> None:
    assert npu.name == "npu 5"
    own = npu.create(16)
    other = npu.open(own.ticket, -1)
    values = np.array([[1, 2]], np.float32)
    written = DeviceArray(npu, own, 8, values.dtype, values.shape)
    written.write(values)
    np.testing.assert_array_equal(written.read(), values)
    read = on_device(DeviceArray(npu, other, 8, values.dtype, values.shape), CPU)
    assert read.tolist() == [[1, 2]] and read.data_ptr() == own.pointer + 8


def test_tensors_are_put_and_taken(npu: Npu, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = SimpleNamespace(synchronize=int, record_event=lambda: stream)
    monkeypatch.setattr(torch.cpu, "current_stream", lambda: stream)
    own, found = npu.create(16), torch.empty(4, dtype=torch.uint8)
    own.put(8, torch.tensor([1, 2, 3, 4], dtype=torch.uint8))
    other = npu.open(own.ticket, -1)
    other.settle()
    other.take(8, found)
    other.settle()
    assert found.tolist() == [1, 2, 3, 4]


def test_a_ticket_of_another_kind_is_refused(npu: Npu) -> None:
    with pytest.raises(UsageError, match="handed over no memory of an NPU"):
        npu.open(Ticket("vmm", 16), -1)


def test_torch_npu_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_npu", None)
    with pytest.raises(UsageError, match="shared memory of an NPU needs torch_npu"):
        NpuDevice(0)
