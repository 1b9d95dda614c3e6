"""An executor of another package: torch on a queue of a CPU, in place of a GPU's.

Its graphs run the work again. Ranks note in the file QUEUED_NOTES what they take from other ranks,
and what they capture.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
from host_device import HostDevice, HostMemory

from rankmesh.comm.sharing.device_memory import Ticket
from rankmesh.worker.executors.settings import ExecutorSettings
from rankmesh.worker.executors.torch import TorchExecutor
from rankmesh.worker.executors.torch.device_queue import TorchQueue
from rankmesh.worker.executors.torch.device_run import DeviceRuns


class NotedMemory(HostMemory):
    def take(self, offset: int, tensor: Any) -> None:
        super().take(offset, tensor)
        note(f"{tensor.nbytes} bytes")


class NotedDevice(HostDevice):
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


class QueuedRuns(DeviceRuns):
    def memory(self) -> NotedDevice:
        return NotedDevice()


class QueuedExecutor(TorchExecutor):
    name = "queued"

    def queue(self) -> QueuedRuns:
        return QueuedRuns(RecordingQueue(torch.device("cpu")))


def open_executor(settings: ExecutorSettings) -> QueuedExecutor:
    return QueuedExecutor(threads=settings.threads)


def note(text: str) -> None:
    if "QUEUED_NOTES" in os.environ:
        with open(os.environ["QUEUED_NOTES"], "a") as file:
            print(text, file=file)
