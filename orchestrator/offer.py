"""The new weights that a caller offers, by rank."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..comm.errors import InputError, ModelError
from ..comm.serving.weights import Find, Weight
from ..comm.shard import find_shards

Array = NDArray[Any]
Given: TypeAlias = Mapping[Any, Any] | Sequence[Mapping[str, Any]] | str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Offer:
    """Arrays by name for each rank, or the file at `path` (the same, or by `{rank}` each one's own).

    Where it is `common`, a rank leaves out what only others have.
    """

    arrays: tuple[Mapping[str, Array], ...]
    path: str
    common: bool

    @classmethod
    def of(cls, given: Given, world_size: int) -> Offer:
        """What was given, for as many ranks; InputError where it is no such thing."""
        if isinstance(given, (str, os.PathLike)):
            return _file(os.fspath(given), world_size)
        if isinstance(given, Mapping) and all(isinstance(name, str) for name in given):
            return cls((_arrays(given),) * world_size, "", True)
        ranks = given if isinstance(given, Mapping) else dict(enumerate(given))
        wrong = sorted(set(map(str, ranks)) - set(map(str, range(world_size))))
        if wrong or not all(isinstance(one, Mapping) for one in ranks.values()):
            raise InputError(f"got weights for {'the ranks ' + ', '.join(wrong) if wrong else 'what are no ranks'}, "
                             f"expected a file, a dict from name to array, or one such dict per rank, of which the "
                             f"model has {world_size}.")
        return cls(tuple(_arrays(ranks.get(rank, {})) for rank in range(world_size)), "", False)

    def find(self, rank: int, delta: bool) -> Find:
        """What a rank is asked about it."""
        offered = [] if self.path else [Weight(name, array.dtype.name, array.shape)
                                        for name, array in self.arrays[rank].items()]
        return Find(offered, self.path, delta)


def _file(path: str, world_size: int) -> Offer:
    try:
        shards = find_shards(os.path.abspath(path))
        shards.require(world_size)
    except ModelError as error:
        raise InputError(str(error)) from error
    return Offer(({},) * world_size, shards.pattern, not shards.numbered)


def _arrays(given: Mapping[str, Any]) -> dict[str, Array]:
    return {name: np.asarray(array) for name, array in given.items()}
