"""Device run: work on tensors of a device as a segment, captured once its shapes come again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch

from ....comm.arrays import Array, Shape
from ....comm.collectives.device_choice import DevicePlace
from ....comm.collectives.libraries.device_place import device_place
from ....comm.errors import OutOfMemory, RankFailed, RankmeshError
from ....comm.loggers import LOG
from ....comm.sharing.device_memory import MemoryDevice
from ....comm.sharing.memory_device import memory_device
from ..base import DeviceWork, Operand
from .device_errors import out_of_memory
from .device_queue import Replay, TorchQueue

MOST_SHAPES = 16
"""Combinations of input shapes whose runs are captured; others run call by call."""
_KINDS = {"cpu": "cpu", "cuda": "gpu", "npu": "ascend"}
"""The kinds of devices of executors, by torch's names."""
_REVISIONS = 2
"""Revisions of the weights whose captured runs are kept: the current one and the one before."""


class RecordedWork:
    """See WorkRecording: graphs of a queue, and the calls between them."""

    def __init__(self, queue: TorchQueue) -> None:
        self._queue = queue
        self._replays: list[Replay] = []

    def capture(self, work: Callable[[], Sequence[torch.Tensor]]) -> Sequence[torch.Tensor]:
        """See WorkRecording.capture."""
        replay, results = self._queue.record(work)
        self._replays.append(replay)
        return results

    def repeat(self, work: Callable[[], object]) -> None:
        """See WorkRecording.repeat."""
        self._replays.append(work)

    def __call__(self) -> None:
        """Run all of it."""
        for replay in self._replays:
            replay()


@dataclass(slots=True)
class RepeatedRun:
    """The runs with inputs of the same shapes: their tensors, and the captured run if there is one.

    `calls` counts the runs; the first one computes what shapes alone decide, so it is never
    captured.
    """

    rooms: list[torch.Tensor]
    calls: int = 0
    replay: RecordedWork | None = None
    results: Sequence[torch.Tensor] = ()
    recorded: Any = None


class DeviceRun:
    """See Shareable: all of `work`, from arrays to arrays, with one wait at its end."""

    def __init__(self, queue: TorchQueue, work: DeviceWork, label: str) -> None:
        self._queue = queue
        self._work = work
        self._label = label
        self._captures = work.recordable and queue.records
        self._told: set[str] = set()
        self._runs: dict[Hashable, dict[Hashable, RepeatedRun]] = {}

    def twin(self) -> DeviceRun:
        """See Shareable.twin."""
        return DeviceRun(self._queue, self._work, self._label)

    def run(self, inputs: Sequence[Operand], outputs: Sequence[Array | None]) -> Sequence[Array]:
        """See Runnable.run. Raises RankFailed, OutOfMemory, and what collectives raise."""
        try:
            with self._queue.working():
                return self._ran(cast("Sequence[Array]", inputs), outputs)
        except RankmeshError:
            raise
        except (torch.OutOfMemoryError, MemoryError) as error:
            raise OutOfMemory(out_of_memory(self._label, self._queue.device, error)) from error
        except (RuntimeError, ValueError) as error:
            raise RankFailed(f"torch failed in {self._label}: {error}") from error

    def _ran(self, inputs: Sequence[Array], outputs: Sequence[Array | None]) -> Sequence[Array]:
        one = self._run_for(self._work.revision(), inputs)
        rooms = one.rooms if one else self._queue.rooms(inputs)
        self._queue.upload(inputs, rooms)
        if one and one.replay is None and one.calls and self._captures:
            self._capture(one)
        with self._work.following(one.recorded if one and one.replay else None) as alive:
            if one and one.replay:
                one.replay()
                results = one.results
            else:
                with self._queue.products():
                    results = self._work.compute(rooms)
            if one:
                one.calls += 1
            return self._queue.download(results, outputs, alive)

    def _run_for(self, revision: Hashable, inputs: Sequence[Array]) -> RepeatedRun | None:
        """The run for inputs of these shapes; None where there are too many combinations."""
        if not self._captures:
            return None
        if revision not in self._runs:
            older = list(self._runs.items())[1 - _REVISIONS :]
            self._runs = {**dict(older), revision: {}}
        runs = self._runs[revision]
        shapes = tuple((array.shape, array.dtype.str) for array in inputs)
        if shapes not in runs and len(runs) == MOST_SHAPES:
            self._tell(f"more than {MOST_SHAPES} combinations of shapes: others run call by call")
            return None
        return runs.get(shapes) or runs.setdefault(shapes, RepeatedRun(self._queue.rooms(inputs)))

    def _capture(self, one: RepeatedRun) -> None:
        """Capture the next run; where that is not possible, all runs go call by call."""
        recording = RecordedWork(self._queue)
        try:
            one.results = self._work.compute(one.rooms, recording)
        except RuntimeError as error:
            self._work.recorded()
            reason = str(error).partition("\n")[0]
            self._tell(f"it cannot be captured as a graph ({reason}), and runs call by call")
            self._captures = False
        else:
            one.replay, one.recorded = recording, self._work.recorded()

    def _tell(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            LOG.warning("%s: %s.", self._label, text)


class DeviceRuns:
    """See DeviceQueue: the runs that go into one queue."""

    def __init__(self, queue: TorchQueue) -> None:
        self._queue = queue

    def runnable(self, work: DeviceWork, label: str) -> DeviceRun:
        """See DeviceQueue.runnable."""
        return DeviceRun(self._queue, work, label)

    def place(self) -> DevicePlace:
        """See DeviceQueue.place."""
        return device_place(self._queue.device)

    def memory(self) -> MemoryDevice | None:
        """See DeviceQueue.memory."""
        device = self._queue.device
        return memory_device(_KINDS[device.type], device.index or 0)

    def tensor(self, dtype: np.dtype[Any], shape: Shape) -> torch.Tensor:
        """See DeviceQueue.tensor."""
        kind = getattr(torch, dtype.name)
        return torch.empty(shape, dtype=kind, device=self._queue.device)
