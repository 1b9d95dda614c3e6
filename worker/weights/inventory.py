"""The weights that lie in memory, of one model or of several: what is there already is not kept twice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

import numpy as np
from onnx import TensorProto

from ...comm.sharing.gpu import Gpu
from ..mindir.graph import TensorType
from .live_plan import WeightReader, type_of
from .store import Store, Variable
from .stored import Stored, fill, on_host
from .weight_file import WeightFile

_CHUNK = 64 << 20  # bytes that are compared at a time


class Batch:
    """The weights that one model brought: what nobody had in a file, and room for the updates of all of them."""

    def __init__(self, brought: Mapping[str, Variable], file: WeightFile, gpu: Gpu | None) -> None:
        self.brought, self.files, self._gpu = brought, [file], gpu

    def make_room(self, wanted: Iterable[Variable]) -> WeightFile | None:
        """Two more copies of every weight, where one of `wanted` is among them; None if there is nothing to do.

        They are in one file, which takes memory for what is written to it alone.
        """
        if len(self.files) > 1 or set(self.brought.values()).isdisjoint(wanted):
            return None
        kinds = {name: TensorType(variable.copies[0].dtype, variable.copies[0].shape)
                 for name, variable in self.brought.items()}
        self.files.append(WeightFile.create("weights-spare", kinds, 2, self._gpu))
        Store(self.brought).add(self.files[-1])
        return self.files[-1]


class Inventory:
    """All weights, in the batches in which they came.

    Two models have one variable where the name, the type and the exported contents are equal. Where all but the name
    are, only the memory of the exported weight is the same: an update of the one is none of the other.
    """

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self._known: dict[bytes, list[tuple[str, Variable]]] = {}
        self.count = 0

    def add(self, weights: Mapping[str, TensorProto], digests: Mapping[str, bytes], reader: WeightReader,
            gpu: Gpu | None) -> dict[str, Variable]:
        """The variables of a model's weights; those that nobody had are read, each once, to the GPU if there is one."""
        equal = {name: found for name, tensor in weights.items()
                 if (found := self._equal(name, digests[name], tensor, reader))}
        missing = {name: tensor for name, tensor in weights.items() if name not in equal}
        file = _read(missing, reader, gpu)
        numbers = iter(range(self.count, self.count + len(weights)))
        brought = {name: Variable(next(numbers), file.arrays[name][0] if name in missing else equal[name][1].copies[0])
                   for name in weights if name in missing or equal[name][0] != name}
        for name, variable in brought.items():
            self._known.setdefault(digests[name], []).append((name, variable))
        self.count += len(brought)
        self.batches.append(Batch(brought, file, gpu))
        return {name: brought.get(name) or equal[name][1] for name in weights}

    def is_first(self, weights: Mapping[str, TensorProto], reader: WeightReader) -> bool:
        """Whether the first batch are these weights, no more and no less."""
        first = self.batches[0].brought
        return first.keys() == weights.keys() and all(_same(first[name].copies[0], tensor, reader)
                                                      for name, tensor in weights.items())

    def close(self) -> None:
        """Let go of the files' descriptors; arrays stay."""
        for batch in self.batches:
            for file in batch.files:
                file.close()

    def _equal(self, name: str, digest: bytes, tensor: TensorProto,
               reader: WeightReader) -> tuple[str, Variable] | None:
        """A variable with the contents of `tensor`, that of the same name before others."""
        candidates = sorted(self._known.get(digest, ()), key=lambda known: known[0] != name)
        return next((known for known in candidates if _same(known[1].copies[0], tensor, reader)), None)


def _read(weights: Mapping[str, TensorProto], reader: WeightReader, gpu: Gpu | None) -> WeightFile:
    """The weights, in a new file."""
    file = WeightFile.create("weights", {name: type_of(tensor) for name, tensor in weights.items()}, gpu=gpu)
    try:
        for name, tensor in weights.items():
            fill(file.arrays[name][0], partial(reader.into, tensor))
    except BaseException:
        file.close()
        raise
    return file


def _same(stored: Stored, tensor: TensorProto, reader: WeightReader) -> bool:
    """Whether both have the same type and the same bytes."""
    if type_of(tensor) != TensorType(stored.dtype, stored.shape):
        return False
    raw = on_host(stored).reshape(-1).view(np.uint8)
    return all(np.array_equal(raw[start:start + _CHUNK],
                              np.frombuffer(reader.part(tensor, start, min(_CHUNK, raw.size - start)), np.uint8))
               for start in range(0, raw.size, _CHUNK))
