"""Saved models that lie in one folder: weights that are equal in several of them are kept once.

onnxruntime maps the external data of a saved model, packed weights included, so that models which name the same
place of the same file share its pages.
"""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from .executors.saved_weights import entries_of, external_tensors, packings, pieces, set_entries

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """One weight in a file: the record's entries, and the (offset, size) in bytes of all that belongs to it."""

    entries: dict[str, str]
    pieces: tuple[tuple[int, int], ...]
    data: mmap.mmap

    def equals(self, other: Kept) -> bool:
        """Whether both are the same, byte for byte; their sizes are."""
        return all(np.array_equal(np.frombuffer(self.data, np.uint8, size, mine),
                                  np.frombuffer(other.data, np.uint8, size, theirs))
                   for (mine, size), (theirs, _) in zip(self.pieces, other.pieces, strict=True))


class EqualWeights:
    """All weights in the saved models of one folder so far."""

    def __init__(self) -> None:
        self._kept: dict[Key, list[Kept]] = {}

    def share(self, place: str) -> None:
        """Rewrite the saved model at `place` to use the weights that models before it had; the others join them.

        A file of its own that it needs no longer is removed.
        """
        model = onnx.load(place, load_external_data=False)
        folder = os.path.dirname(place)
        files: dict[str, mmap.mmap] = {}
        for tensor in external_tensors(model):
            entries = entries_of(tensor)
            name = entries["location"]
            files.setdefault(name, _mapped(os.path.join(folder, name)))
            mine = Kept(entries, tuple(pieces(entries)), files[name])
            kept = self._kept.setdefault(_key(tensor, mine), [])
            equal = next((one for one in kept if one.equals(mine)), None)
            if equal is None:
                kept.append(mine)
            else:
                set_entries(tensor, equal.entries)
        with open(place, "wb") as file:
            file.write(model.SerializeToString())
        for data in {id(one.data): one.data for kept in self._kept.values() for one in kept}.values():
            data.madvise(mmap.MADV_DONTNEED)  # what was compared need not stay in memory for it
        for name in files.keys() - {entries_of(tensor)["location"] for tensor in external_tensors(model)}:
            os.unlink(os.path.join(folder, name))


def _key(tensor: TensorProto, kept: Kept) -> Key:
    """What equal weights have in common before one looks at their bytes."""
    return tensor.data_type, tuple(tensor.dims), packings(kept.entries), tuple(size for _, size in kept.pieces)


def _mapped(path: str) -> mmap.mmap:
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
