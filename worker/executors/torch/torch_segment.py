"""A segment on torch: arrays in, arrays out, with a call list for each combination of shapes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ....comm.arrays import Array
from ....comm.errors import OutOfMemory, RankFailed
from ...partition.plan import Segment
from ..base import Operand
from .call_list import CallList, TorchFailed
from .device_errors import out_of_memory
from .device_weights import DeviceWeights
from .shape_trace import ShapeTrace
from .tensors import as_array, as_tensor, on_device, storage_of
from .torch_settings import TorchSettings, float32_products

if TYPE_CHECKING:
    from .compiled_calls import CompiledCalls

MOST_LISTS = 16
"""Combinations of input shapes that a segment keeps a call list for; others run as compiled."""


class TorchSegment:
    """One prepared segment; `twin` gives others of the same calls and constants.

    `lists` has the call list for each combination of input shapes so far.
    """

    def __init__(
        self,
        segment: Segment,
        calls: CallList,
        settings: TorchSettings,
    ) -> None:
        self._segment = segment
        self._calls = calls
        self._settings = settings
        self._device = settings.device
        self.lists: dict[Any, CallList | CompiledCalls] = {}
        self._taken: list[Operand | None] = [None] * len(segment.inputs)
        self._tensors: list[Any] = [None] * len(segment.inputs)
        self._rooms: dict[int, tuple[Array, torch.Tensor]] = {}
        self._weights = DeviceWeights(settings.device)

    def twin(self) -> TorchSegment:
        """See Shareable.twin."""
        other = TorchSegment(self._segment, self._calls, self._settings)
        other.lists = self.lists
        return other

    def run(self, inputs: Sequence[Operand], outputs: Sequence[Array | None]) -> Sequence[Array]:
        """See Runnable.run."""
        self._settings.use_threads()
        with torch.inference_mode(), self._products():
            for at, array in enumerate(inputs):
                if array is not self._taken[at] or self._device.type != "cpu":
                    self._tensors[at] = on_device(array, self._device)
                    self._taken[at] = array if _stays(array) else None
            calls, results = self._called()
            return self._arrays(results, outputs, calls.memory)

    def _products(self) -> AbstractContextManager[None]:
        """While torch computes on a device outside of a queue; a queue sees to it itself."""
        if self._device.type == "cpu":
            return nullcontext()
        return float32_products(self._settings.tf32)

    def compute(self, inputs: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """See DeviceRunnable.compute."""
        self._tensors = list(inputs)
        self._taken = [None] * len(inputs)
        return self._called()[1]

    def revision(self) -> Hashable:
        """See DeviceRunnable.revision: all weights are constants."""
        return None

    def placed(self, weights: Sequence[Operand]) -> tuple[Hashable, Sequence[torch.Tensor]]:
        """See DeviceRunnable.placed."""
        return self._weights.placed(weights)

    def _called(self) -> tuple[CallList | CompiledCalls, list[Any]]:
        """The calls for the tensors, and what they made."""
        try:
            return self._computed(tuple(one.shape for one in self._tensors))
        except TorchFailed as error:
            what = f"torch failed in the segment that ends in {self._segment.outputs[0]}"
            raise RankFailed(f"{what}: {error}") from error
        except MemoryError as error:
            where = f"the segment that ends in {self._segment.outputs[0]}"
            raise OutOfMemory(out_of_memory(where, self._device, error)) from error

    def _computed(self, shapes: Any) -> tuple[CallList | CompiledCalls, list[Any]]:
        """The calls for inputs of these shapes, and the results."""
        known = self.lists.get(shapes)
        if known is None and len(self.lists) < MOST_LISTS:
            results, calls = ShapeTrace(self._calls).run(self._tensors)
            compiled = self._compiled(calls)
            self.lists[shapes] = compiled or calls
            return calls, results
        known = known or self._calls
        return known, known.run(self._tensors)

    def _compiled(self, calls: CallList) -> CompiledCalls | None:
        """The calls for the tensors, compiled where that is asked for and possible."""
        if not self._settings.compiles:
            return None
        from .compiled_calls import compile_calls  # its imports take seconds

        return compile_calls(calls, self._tensors, f"the part up to {self._segment.outputs[0]}")

    def _arrays(
        self, results: list[Any], outputs: Sequence[Array | None], memory: set[int]
    ) -> list[Array]:
        rooms = list(map(_room, results, outputs))
        owned = (
            {*memory, *map(storage_of, self._tensors)}
            if any(room is None for room in rooms)
            else set()
        )
        found: list[Array] = []
        for at, (tensor, room) in enumerate(zip(results, rooms, strict=True)):
            if room is None:
                found.append(self._new(tensor, owned))
            else:
                self._write(at, tensor, room)
                found.append(room)
        return found

    def _new(self, tensor: torch.Tensor, owned: set[int]) -> Array:
        """The result as an array that shares no memory with inputs, constants or other results."""
        made = tensor.contiguous().cpu().resolve_conj().resolve_neg()
        if storage_of(made) in owned or made.nbytes < made.untyped_storage().nbytes():
            made = made.clone()
        owned.add(storage_of(made))
        return as_array(made)

    def _write(self, at: int, tensor: torch.Tensor, out: Array) -> None:
        """Put a result where it is wanted."""
        kept = self._rooms.get(at)
        if kept is None or kept[0] is not out:
            kept = self._rooms[at] = (out, as_tensor(out))
        kept[1].copy_(tensor)
        if not out.flags.aligned:
            out[...] = as_array(kept[1])


def _room(tensor: Any, out: Array | None) -> Array | None:
    """Where a result goes; None for one whose shape was not known, or is declared wrong."""
    return out if out is not None and tuple(tensor.shape) == out.shape else None


def _stays(array: Operand) -> bool:
    """Whether the tensor of an array is good for later runs: that of a misaligned one is a copy."""
    return not isinstance(array, np.ndarray) or bool(array.flags.aligned)
