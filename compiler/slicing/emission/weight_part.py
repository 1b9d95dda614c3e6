"""Weight parts: hold the place of a part of a weight, and read it from its source in pieces.

A weight of several gigabytes is never copied in memory. Zeros of the source, as in the
holes of a sparse file, are left out, so that the copy of a sparse file is sparse too.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ..placement.placements import Partial, Placement, Split, Windows

PIECE = 8 << 20
"""Bytes that are read at once."""


@dataclass(frozen=True, slots=True)
class WeightPart:
    """The part of the source's weight `weight` that `rank` of its stage holds.

    A weight as a term of a sum is whole on the first rank, and zero on the others.
    """

    weight: str
    tensor: ir.TensorProtocol
    placement: Placement
    rank: int

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the part."""
        sizes = [int(size) for size in self.tensor.shape.numpy()]
        if isinstance(self.placement, Split | Windows):
            sizes[self.placement.axis] = self.placement.size(self.rank)
        return tuple(sizes)

    @property
    def nbytes(self) -> int:
        """The bytes of the part, packed as ONNX packs them; 0 for texts."""
        if self.tensor.dtype == ir.DataType.STRING:
            return 0
        return math.ceil(self.tensor.dtype.bitwidth * math.prod(self.shape) / 8)

    @property
    def lazy(self) -> ir.TensorProtocol:
        """The part as a tensor that is read when it is needed."""

        def read() -> ir.TensorProtocol:
            return ir.tensor(self.array(), dtype=self.tensor.dtype)

        return ir.LazyTensor(read, self.tensor.dtype, ir.Shape(self.shape))

    def array(self) -> np.ndarray:
        """The part as an array, which may be a view of the source."""
        whole = self.tensor.numpy()
        if self.is_zero:
            return np.zeros_like(whole)
        if not isinstance(self.placement, Split | Windows):
            return whole
        head = (slice(None),) * self.placement.axis
        cuts = self.placement.intervals(self.rank)
        parts = [whole[(*head, slice(*cut))] for cut in cuts]
        joined = parts[0] if len(parts) == 1 else np.concatenate(parts, self.placement.axis)
        return np.ascontiguousarray(joined)

    @property
    def is_zero(self) -> bool:
        """Whether another rank has the numbers of the weight, and this one zeros."""
        return self.placement == Partial("sum") and self.rank > 0

    def pieces(self, most: int = PIECE) -> Iterator[tuple[int, bytes | memoryview]]:
        """The bytes of the part, some `most` at once, each with its offset; without those that are
        all zero.
        """
        if self.is_zero:
            return
        if self.tensor.dtype.bitwidth % 8:
            packed = ir.tensor(self.array(), dtype=self.tensor.dtype)
            yield from _nonzero(0, np.frombuffer(packed.tobytes(), np.uint8))
            return
        holes = _Holes(self.tensor)
        try:
            yield from self._read(holes, most)
        finally:
            holes.close()

    def _read(self, holes: _Holes, most: int) -> Iterator[tuple[int, bytes | memoryview]]:
        whole = np.ascontiguousarray(self.tensor.numpy())
        width, at = whole.itemsize, 0
        for rows, cuts in self._cuts(whole, most):
            inner = whole.size // max(1, rows.shape[0] * rows.shape[1]) * width
            length = sum(stop - start for start, stop in cuts) * inner
            step = max(1, most // max(1, length))
            for row in range(0, rows.shape[0], step):
                few = rows[row : row + step]
                first, last = row * rows.shape[1] + cuts[0][0], (row + len(few) - 1)
                span = first * inner, (last * rows.shape[1] + cuts[-1][1]) * inner
                if not holes.covers(*span):
                    parts = [few[:, start:stop] for start, stop in cuts]
                    block = parts[0] if len(parts) == 1 else np.concatenate(parts, 1)
                    yield from _nonzero(at, np.ascontiguousarray(block).reshape(-1).view(np.uint8))
                at += length * len(few)

    def _cuts(
        self, whole: np.ndarray, most: int
    ) -> Iterator[tuple[np.ndarray, list[tuple[int, int]]]]:
        """The source as rows, with the elements to take of each, in pieces where a row is large."""
        if not isinstance(self.placement, Split | Windows):
            outer, length, cuts = 1, whole.size, [(0, whole.size)]
        else:
            axis = self.placement.axis
            outer, length = math.prod(whole.shape[:axis]), whole.shape[axis]
            cuts = self.placement.intervals(self.rank)
        rows = whole.reshape(outer, length, -1)
        if outer > 1:
            yield rows, cuts
            return
        step = max(1, most // max(1, rows.shape[2] * whole.itemsize))
        for start, stop in cuts:
            for one in range(start, stop, step):
                yield rows, [(one, min(one + step, stop))]


def _nonzero(at: int, data: np.ndarray) -> Iterator[tuple[int, memoryview]]:
    if data.view(np.bool_).any():
        yield at, data.data


class _Holes:
    """The holes in the file of an external tensor; none for other tensors."""

    def __init__(self, tensor: ir.TensorProtocol) -> None:
        self._fd, self._base, self._data = -1, 0, (0, 0)
        if isinstance(tensor, ir.ExternalTensor):
            self._fd = os.open(tensor.path, os.O_RDONLY | os.O_CLOEXEC)
            self._base = tensor.offset or 0

    def covers(self, start: int, stop: int) -> bool:
        """Whether the tensor's bytes from `start` to `stop` are all in a hole."""
        if self._fd < 0:
            return False
        try:
            return os.lseek(self._fd, self._base + start, os.SEEK_DATA) >= self._base + stop
        except OSError:  # there are no data behind the offset
            return True

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
