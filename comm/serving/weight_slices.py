"""Weight slices: tell which part of which whole weight each weight of a sliced shard is.

The slicer writes them beside the shards. An orchestrator reads them, so that updates may give whole
weights by the names of the whole model.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from ..arrays import Array
from ..decoding import guarded
from ..errors import InputError, ModelError
from ..host.regular_file import read_regular

WEIGHTS = "weights.json"
ORDER = "rankmesh.order"
"""The note of a tensor that is a transposed weight: the order of the weight's axes in it."""
_TOLD = 5
_LARGEST = 256 << 20


class WeightSlice(msgspec.Struct, frozen=True, array_like=True):
    """The pieces `cuts` of an axis of `weight`, whose shape is `shape`; no cuts: all of it.

    With `zero` the slice is zeros in the shape of the weight: another rank has its numbers. With an
    `order` of axes, the weight is transposed so, then cut.
    """

    weight: str
    shape: tuple[int, ...]
    axis: int = 0
    cuts: tuple[tuple[int, int], ...] = ()
    zero: bool = False
    order: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError where no array has such a slice."""
        order = self.order or tuple(range(len(self.shape)))
        if sorted(order) != list(range(len(self.shape))):
            raise ValueError(f"the order {list(order)} is none of {len(self.shape)} axes")
        if not 0 <= self.axis < len(order) and (self.cuts or self.axis):
            raise ValueError(f"axis {self.axis} of {len(order)} axes is cut")
        for start, stop in self.cuts:
            if not 0 <= start <= stop <= self.shape[order[self.axis]]:
                raise ValueError(f"the cut from {start} to {stop} is outside of the weight")

    def of(self, array: Array) -> Array:
        """The slice of a whole weight; InputError for one of another shape."""
        if array.shape != self.shape:
            raise InputError(
                f"'{self.weight}' has the shape {list(array.shape)}, expected {list(self.shape)}, "
                "that of the whole weight."
            )
        array = array.transpose(self.order) if self.order else array
        if self.zero:
            return np.zeros_like(array)
        head = (slice(None),) * self.axis
        parts = [array[(*head, slice(*cut))] for cut in self.cuts]
        return np.concatenate(parts, self.axis) if len(parts) > 1 else [*parts, array][0]


class WeightSlices(msgspec.Struct, frozen=True):
    """The slices of each rank, by the rank's name of the weight, of the shards called `pattern`.

    `fixed` are whole weights that cannot be updated, with the reason.
    """

    pattern: str
    ranks: tuple[dict[str, WeightSlice], ...]
    fixed: dict[str, str] = {}

    def of(self, given: Mapping[str, Array]) -> tuple[dict[str, Array], ...]:
        """The arrays of each rank, of whole weights by their names; InputError for wrong ones."""
        known = {one.weight for rank in self.ranks for one in rank.values()}
        wrong = [name for name in given if name not in known or name in self.fixed]
        if wrong:
            raise InputError(self._words(wrong[0], known) + _likewise(wrong))
        return tuple(
            {name: one.of(given[one.weight]) for name, one in rank.items() if one.weight in given}
            for rank in self.ranks
        )

    def _words(self, name: str, known: Iterable[str]) -> str:
        if name in self.fixed:
            return f"'{name}' of {self.pattern} cannot be updated: {self.fixed[name]}."
        names = sorted(set(known).difference(self.fixed))
        near = difflib.get_close_matches(name, names, 3, 0.5)
        told = f"near: {', '.join(near)}" if near else f"it has {', '.join(names[:_TOLD])}, ..."
        return f"the model that {self.pattern} are slices of has no weight '{name}'; {told}."


def read_weight_slices(pattern: str, ranks: int) -> WeightSlices | None:
    """The slices beside the shards of a pattern; None where there are none of these shards.

    Raises ModelError for a file that cannot be read, or is not of so many ranks.
    """
    path = os.path.join(os.path.dirname(pattern), WEIGHTS)
    try:
        found = weight_slices_of(read_regular(path, _LARGEST), ranks, os.path.basename(pattern))
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ModelError(
            f"{path}: cannot be read: {reason}. Slice the model again, or remove this file: then "
            "weights are updated by the names and shapes of each shard."
        ) from error
    return found


def weight_slices_of(data: bytes, ranks: int, pattern: str) -> WeightSlices | None:
    """The slices that a file of these bytes has; None where it is of other shards.

    Raises msgspec.DecodeError.
    """
    found = _DECODER(data)
    if found.pattern != pattern:
        return None
    if len(found.ranks) != ranks:
        raise msgspec.DecodeError(f"it has {len(found.ranks)} ranks, expected {ranks}")
    return found


def _likewise(wrong: list[str]) -> str:
    more = f" Likewise {', '.join(wrong[1:4])}, {len(wrong)} in all."
    return more if len(wrong) > 1 else ""


_DECODER = guarded(msgspec.json.Decoder(WeightSlices))
