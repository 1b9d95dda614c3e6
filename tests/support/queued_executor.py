"""An executor of another package: torch on a queue of a CPU, in place of a GPU's.

Its graphs run the work again. Ranks note in the file QUEUED_NOTES what they take from other ranks,
what they capture, and each time that they bring results to the host.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from host_device import HostDevice, HostMemory

from rankmesh.comm.collectives.device_choice import DevicePlace
from rankmesh.comm.sharing.device_memory import Ticket
from rankmesh.worker.executors.settings import ExecutorSettings
from rankmesh.worker.executors.torch import TorchExecutor
from rankmesh.worker.executors.torch.device_queue import TorchQueue
from rankmesh.worker.executors.torch.device_run import DeviceRuns


class NotedMemory(HostMemory):
    def put(self, offset: int, tensor: Any) -> None:
        super().put(offset, tensor)
        stay("putting")

    def take(self, offset: int, tensor: Any) -> None:
        super().take(offset, tensor)
        note(f"{tensor.nbytes} bytes")
        stay("taking")


class NotedDevice(HostDevice):
    def create(self, size: int) -> HostMemory:
        fd = os.memfd_create("device")
        os.ftruncate(fd, size)
        return NotedMemory(fd, size, owned=True)

    def open(self, ticket: Ticket, fd: int) -> HostMemory:
        return NotedMemory(fd, ticket.size, owned=False)


class RecordingQueue(TorchQueue):
    """A queue of the CPU whose graphs run the work again, into the results of the first run."""

    records = True

    def record(self, compute: Callable[[], Sequence[Any]]) -> Any:
        results = [one.clone() for one in compute()]

        def replay() -> None:
            for kept, made in zip(results, compute(), strict=True):
                kept.copy_(made)

        note("graph")
        return replay, results

    def download(self, *given: Any) -> Any:
        note("results on the host")
        return super().download(*given)


class QueuedRuns(DeviceRuns):
    def place(self) -> DevicePlace:
        """A device of this process alone, whose collectives are gloo's."""
        return DevicePlace(f"device {os.getpid()}", "gloo")

    def memory(self) -> NotedDevice:
        return NotedDevice()


class QueuedExecutor(TorchExecutor):
    name = "queued"

    def queue(self) -> QueuedRuns:
        return QueuedRuns(RecordingQueue(torch.device("cpu")))


def open_executor(settings: ExecutorSettings) -> QueuedExecutor:
    return QueuedExecutor(threads=settings.threads)


def stay(doing: str) -> None:
    """Stay in the middle of this, and note it, while there is a file of that name."""
    held = f"{os.environ.get('QUEUED_NOTES', '')}.{doing}"
    if os.path.exists(held):
        note(f"{doing} {os.getpid()}")
    while os.path.exists(held):
        time.sleep(0.01)


def note(text: str) -> None:
    if "QUEUED_NOTES" in os.environ:
        with open(os.environ["QUEUED_NOTES"], "a") as file:
            print(text, file=file)
