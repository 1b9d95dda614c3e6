"""From what a caller offers to tensors in shared memory, with the help of the ranks of one group."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..comm.errors import InputError, RankFailed, RankmeshError, error_named
from ..comm.serving.tensor_arena import OwnedArena, Region
from ..comm.serving.tensor_spec import dtype_named
from ..comm.serving.weights import Fill, Question, Reply, Weight
from .editions import Held
from .offer import Offer

Array = NDArray[Any]
Ask = Callable[[Sequence[Question]], list[Reply]]
"""Asks each rank of the group one question; raises Lost."""


class Gathering:
    """Places tensors; every one has a region of its own, so that it lasts exactly as long as it is needed."""

    def __init__(self, arena: OwnedArena) -> None:
        self._arena, self._marks = arena, itertools.count(1)

    def weights(self, offer: Offer, delta: bool, ask: Ask, fits: Callable[[], None]) -> list[dict[str, Held]]:
        """The weights that an offer makes, by rank and the rank's names; with `delta` the exported ones plus it.

        `fits` is told that all of it does, before memory is taken for it. Raises InputError, naming the weight, where
        it does not, and what `ask` raises.
        """
        ranks = range(len(offer.arrays))
        replies = checked(ask([offer.find(rank, delta) for rank in ranks]))
        _require_known(replies, offer.common)
        fits()
        new = self._held(replies, offer, shared=not delta and not offer.path)
        if offer.path or delta:
            checked(ask([Fill([held.weight for held in new[rank].values()], delta) for rank in ranks]))
        return new

    def _held(self, replies: Sequence[Reply], offer: Offer, shared: bool) -> list[dict[str, Held]]:
        """Memory for each rank's weights, with the arrays of the offer in it; `shared`: once for all ranks."""
        known: dict[int, Held] = {}
        ranks: list[dict[str, Held]] = []
        for rank, (reply, arrays) in enumerate(zip(replies, offer.arrays, strict=True)):
            ranks.append({})
            for name, weight in reply.found.items():
                array = arrays.get(name)
                _require_offered(rank, name, weight, array, bool(offer.path))
                held = known.get(id(array)) if shared else None
                held = held or self._room(weight, array)
                known[id(array)] = held
                ranks[-1][weight.name] = replace(held, weight=msgspec.structs.replace(held.weight, name=weight.name))
        return ranks

    def _room(self, weight: Weight, array: Array | None) -> Held:
        dtype, shape = dtype_named(weight.dtype), tuple(weight.shape)
        size = prod(shape) * dtype.itemsize
        region: Region = self._arena.allocate(size)
        if array is not None:
            np.copyto(self._arena.view(region.offset, dtype, shape, size), array)
        return Held(msgspec.structs.replace(weight, offset=region.offset, mark=next(self._marks)), region)


def checked(replies: list[Reply]) -> list[Reply]:
    """The replies, unless one of them is an error, which is raised as the first rank's that has one."""
    for rank, reply in enumerate(replies):
        if reply.error:
            raise _error(reply.error, reply.text, rank, len(replies))
    return replies


def _require_offered(rank: int, name: str, weight: Weight, array: Array | None, in_file: bool) -> None:
    """RankFailed where a rank takes something for a weight that was not offered like this."""
    if array is None and not in_file or array is not None and array.shape != tuple(weight.shape):
        raise RankFailed(f"rank {rank} has replied with the weight '{name}' of shape {list(weight.shape)}, which was "
                         f"not offered: nothing has changed.")


def _require_known(replies: Sequence[Reply], common: bool) -> None:
    """InputError for a name that no rank knows, or where they have names of their own, that one does not."""
    missing = set(replies[0].unknown).intersection(*(reply.unknown for reply in replies)) if common else None
    for rank, reply in enumerate(replies):
        wrong = [name for name in reply.unknown if missing is None or name in missing]
        if wrong:
            raise _error("InputError", _words(reply, wrong), rank, len(replies))
    if not any(reply.found for reply in replies):
        raise InputError("got no tensors to update weights with.")


def _words(reply: Reply, wrong: Sequence[str]) -> str:
    """Why names are refused: the rank's own words, if they are about the first of them."""
    first = reply.reason if reply.unknown[0] == wrong[0] else f"no rank has a weight '{wrong[0]}'."
    return first + (f" Likewise {', '.join(wrong[1:4])}, {len(wrong)} in all." if len(wrong) > 1 else "")


def _error(kind: str, text: str, rank: int, world_size: int) -> RankmeshError:
    return error_named(kind, text if world_size == 1 else f"rank {rank}: {text}")
