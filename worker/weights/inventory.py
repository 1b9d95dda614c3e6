"""Weight inventory: the weights in memory, of one model or several, equal ones once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

import numpy as np
from onnx import TensorProto

from ...comm.sharing.device_memory import MemoryDevice
from .plan_weights import WeightReader, type_of
from .store import Stored, WeightStore, WeightType, WeightVariable, fill, on_host
from .weight_file import WeightFile

_CHUNK = 64 << 20  # bytes that are compared at a time


class WeightBatch:
    """The new weights of one model, in a file, and room for their updates."""

    def __init__(
        self, brought: Mapping[str, WeightVariable], file: WeightFile, gpu: MemoryDevice | None
    ) -> None:
        self.brought = brought
        self.files = [file]
        self._gpu = gpu

    def make_room(self, wanted: Iterable[WeightVariable]) -> WeightFile | None:
        """Make two more copies of every weight, where one of `wanted` is among them; None
        otherwise.

        They are in one file, of which only the written pages take memory.
        """
        if len(self.files) > 1 or set(self.brought.values()).isdisjoint(wanted):
            return None
        kinds = {
            name: WeightType(variable.copies[0].dtype, variable.copies[0].shape)
            for name, variable in self.brought.items()
        }
        self.files.append(WeightFile.create("weights-spare", kinds, 2, self._gpu))
        WeightStore(self.brought).add(self.files[-1].arrays)
        return self.files[-1]


class WeightInventory:
    """All weights, in the batches in which they came.

    Two models have one variable where the name, the type and the exported contents are equal. Where
    only the names differ, they share the memory of the exported weight, and an update of one does
    not change the other.
    """

    def __init__(self) -> None:
        self.batches: list[WeightBatch] = []
        self._known: dict[bytes, list[tuple[str, WeightVariable]]] = {}
        self.count = 0

    def add(
        self,
        weights: Mapping[str, TensorProto],
        digests: Mapping[str, bytes],
        reader: WeightReader,
        gpu: MemoryDevice | None,
    ) -> dict[str, WeightVariable]:
        """Add a model's weights; returns their variables. New weights are read, to the GPU if there
        is one.
        """
        equal = {
            name: found
            for name, tensor in weights.items()
            if (found := self._equal(name, digests[name], tensor, reader))
        }
        missing = {name: tensor for name, tensor in weights.items() if name not in equal}
        file = _read(missing, reader, gpu)
        numbers = iter(range(self.count, self.count + len(weights)))
        brought = {
            name: WeightVariable(
                next(numbers), file.arrays[name][0] if name in missing else equal[name][1].copies[0]
            )
            for name in weights
            if name in missing or equal[name][0] != name
        }
        for name, variable in brought.items():
            self._known.setdefault(digests[name], []).append((name, variable))
        self.count += len(brought)
        self.batches.append(WeightBatch(brought, file, gpu))
        return {name: brought.get(name) or equal[name][1] for name in weights}

    def is_first(self, weights: Mapping[str, TensorProto], reader: WeightReader) -> bool:
        """Whether the first batch is these weights, no more and no less."""
        first = self.batches[0].brought
        return first.keys() == weights.keys() and all(
            _same(first[name].copies[0], tensor, reader) for name, tensor in weights.items()
        )

    def close(self) -> None:
        """Close the files' descriptors; arrays stay."""
        for batch in self.batches:
            for file in batch.files:
                file.close()

    def _equal(
        self, name: str, digest: bytes, tensor: TensorProto, reader: WeightReader
    ) -> tuple[str, WeightVariable] | None:
        """A variable with the contents of `tensor`; one of the same name before others."""
        candidates = sorted(self._known.get(digest, ()), key=lambda known: known[0] != name)
        return next(
            (known for known in candidates if _same(known[1].copies[0], tensor, reader)), None
        )


def _read(
    weights: Mapping[str, TensorProto], reader: WeightReader, gpu: MemoryDevice | None
) -> WeightFile:
    """The weights, in a new file."""
    file = WeightFile.create(
        "weights", {name: type_of(tensor) for name, tensor in weights.items()}, gpu=gpu
    )
    try:
        for name, tensor in weights.items():
            fill(file.arrays[name][0], partial(reader.into, tensor))
    except BaseException:
        file.close()
        raise
    return file


def _same(stored: Stored, tensor: TensorProto, reader: WeightReader) -> bool:
    """Whether both have the same type and the same bytes."""
    if type_of(tensor) != WeightType(stored.dtype, stored.shape):
        return False
    raw = on_host(stored).reshape(-1).view(np.uint8)
    return all(
        np.array_equal(
            raw[start : start + _CHUNK],
            np.frombuffer(reader.part(tensor, start, min(_CHUNK, raw.size - start)), np.uint8),
        )
        for start in range(0, raw.size, _CHUNK)
    )
