"""Weight payloads: bring the new weights that a caller offers into shared memory."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, TypeAlias

import msgspec
import numpy as np

from ...comm.arrays import Array
from ...comm.errors import InputError, ModelError, RankFailed, RankmeshError, error_named
from ...comm.job.names import require_utf8_path
from ...comm.job.shard import find_shards
from ...comm.request_memory.owned_arena import OwnedArena, Region
from ...comm.serving.tensor_spec import dtype_named
from ...comm.serving.weight_slices import WeightSlices
from ...comm.serving.weights import (
    ResolveWeights,
    WeightReply,
    WeightTensor,
    WriteWeights,
    encode_weight_request,
)
from ..replica.control import PlacedRequest
from ..scheduling.replica_weights import PlacedWeight

GivenWeights: TypeAlias = Mapping[Any, Any] | Sequence[Mapping[str, Any]] | str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class WeightPayload:
    """Arrays by name for each rank, or the file at `path` (the same, or by `{rank}` each one's
    own).

    Where it is `common`, a rank leaves out what only others have. With `slices` the file has whole
    weights.
    """

    arrays: tuple[Mapping[str, Array], ...]
    path: str
    common: bool
    slices: WeightSlices | None = None

    @classmethod
    def of(
        cls, given: GivenWeights, world_size: int, slices: WeightSlices | None = None
    ) -> WeightPayload:
        """The payload of the given weights for so many ranks; InputError where they are of another
        form.

        With `slices`, what is given for all ranks are whole weights of the model before slicing.
        """
        if isinstance(given, (str, os.PathLike)):
            found = _file(os.fspath(given), world_size)
            return replace(found, slices=slices if found.common else None)
        if isinstance(given, Mapping) and all(isinstance(name, str) for name in given):
            if slices is not None:
                return cls(slices.of(_arrays(given)), "", False)
            return cls((_arrays(given),) * world_size, "", True)
        ranks = given if isinstance(given, Mapping) else dict(enumerate(given))
        wrong = sorted(set(map(str, ranks)) - set(map(str, range(world_size))))
        if wrong or not all(isinstance(one, Mapping) for one in ranks.values()):
            raise InputError(
                "got weights for "
                f"{'the ranks ' + ', '.join(wrong) if wrong else 'what are no ranks'}, "
                "expected a file, a dict from name to array, or one such dict per rank, of "
                "which the "
                f"model has {world_size}."
            )
        return cls(tuple(_arrays(ranks.get(rank, {})) for rank in range(world_size)), "", False)

    def find(self, rank: int, delta: bool) -> ResolveWeights:
        """The request to a rank to resolve the names of the payload."""
        offered = (
            []
            if self.path
            else [
                WeightTensor(name, array.dtype.name, array.shape)
                for name, array in self.arrays[rank].items()
            ]
        )
        slices = self.slices.ranks[rank] if self.slices is not None else None
        return ResolveWeights(offered, self.path, delta, slices)


def _written(new: Sequence[PlacedWeight], offer: WeightPayload, delta: bool) -> PlacedRequest:
    """The request to a rank to write new weights where they lie."""
    request = encode_weight_request(WriteWeights([placed.weight for placed in new], delta))
    regions = [placed.region for placed in new]
    return PlacedRequest(request, regions, reads=not offer.path, writes=True)


def _file(path: str, world_size: int) -> WeightPayload:
    try:
        require_utf8_path(path)
        shards = find_shards(os.path.abspath(path))
        shards.require(world_size)
    except ModelError as error:
        raise InputError(str(error)) from error
    return WeightPayload(({},) * world_size, shards.pattern, not shards.numbered)


def _arrays(given: Mapping[str, Any]) -> dict[str, Array]:
    return {name: np.asarray(array) for name, array in given.items()}


Ask = Callable[[Sequence[PlacedRequest]], list[WeightReply]]
"""Asks each rank of the replica one question; raises RanksLost."""


class WeightCollector:
    """Places tensors; every one has a region of its own, so that it lasts exactly as long as it is
    needed.
    """

    def __init__(self, arena: OwnedArena) -> None:
        self._arena, self._marks = arena, itertools.count(1)

    def weights(
        self, offer: WeightPayload, delta: bool, ask: Ask, fits: Callable[[], None]
    ) -> list[dict[str, PlacedWeight]]:
        """The weights that an offer makes, by rank and the rank's names; with `delta` the exported
        ones plus it.

        `fits` is told that all of it does, before memory is taken for it. Raises InputError, naming
        the weight, where it does not, and what `ask` raises.
        """
        ranks = range(len(offer.arrays))
        found = [PlacedRequest(encode_weight_request(offer.find(rank, delta))) for rank in ranks]
        replies = checked(ask(found))
        _require_known(replies, offer.common)
        fits()
        new = self._held(replies, offer, shared=not delta and not offer.path)
        if offer.path or delta:
            checked(ask([_written(list(new[rank].values()), offer, delta) for rank in ranks]))
        return new

    def _held(
        self, replies: Sequence[WeightReply], offer: WeightPayload, shared: bool
    ) -> list[dict[str, PlacedWeight]]:
        """Memory for each rank's weights, with the arrays of the offer in it; `shared`: once for
        all ranks.
        """
        known: dict[int, PlacedWeight] = {}
        ranks: list[dict[str, PlacedWeight]] = []
        for rank, (reply, arrays) in enumerate(zip(replies, offer.arrays, strict=True)):
            ranks.append({})
            for name, weight in reply.found.items():
                array = arrays.get(name)
                _require_offered(rank, name, weight, array, bool(offer.path))
                held = known.get(id(array)) if shared else None
                held = held or self._room(weight, array)
                known[id(array)] = held
                ranks[-1][weight.name] = replace(
                    held, weight=msgspec.structs.replace(held.weight, name=weight.name)
                )
        return ranks

    def _room(self, weight: WeightTensor, array: Array | None) -> PlacedWeight:
        dtype, shape = dtype_named(weight.dtype), tuple(weight.shape)
        size = prod(shape) * dtype.itemsize
        region: Region = self._arena.allocate(size)
        if array is not None:
            np.copyto(self._arena.view(region.offset, dtype, shape, size), array)
        return PlacedWeight(
            msgspec.structs.replace(weight, offset=region.offset, mark=next(self._marks)), region
        )


def checked(replies: list[WeightReply]) -> list[WeightReply]:
    """The replies, unless one of them is an error, which is raised as the first rank's that has
    one.
    """
    for rank, reply in enumerate(replies):
        if reply.error:
            raise _error(reply.error, reply.text, rank, len(replies))
    return replies


def _require_offered(
    rank: int, name: str, weight: WeightTensor, array: Array | None, in_file: bool
) -> None:
    """RankFailed where a rank takes something for a weight that was not offered like this."""
    if array is None and not in_file or array is not None and array.shape != tuple(weight.shape):
        raise RankFailed(
            f"rank {rank} has replied with the weight '{name}' of shape {list(weight.shape)}, "
            "which was "
            f"not offered: nothing has changed."
        )


def _require_known(replies: Sequence[WeightReply], common: bool) -> None:
    """InputError for a name that no rank knows, or where they have names of their own, that one
    does not.
    """
    missing = (
        set(replies[0].unknown).intersection(*(reply.unknown for reply in replies))
        if common
        else None
    )
    for rank, reply in enumerate(replies):
        wrong = [name for name in reply.unknown if missing is None or name in missing]
        if wrong:
            raise _error("InputError", _words(reply, wrong), rank, len(replies))
    if not any(reply.found for reply in replies):
        raise InputError("got no tensors to update weights with.")


def _words(reply: WeightReply, wrong: Sequence[str]) -> str:
    """Why names are refused: the rank's own words, if they are about the first of them."""
    first = reply.reason if reply.unknown[0] == wrong[0] else f"no rank has a weight '{wrong[0]}'."
    return first + (
        f" Likewise {', '.join(wrong[1:4])}, {len(wrong)} in all." if len(wrong) > 1 else ""
    )


def _error(kind: str, text: str, rank: int, world_size: int) -> RankmeshError:
    return error_named(kind, text if world_size == 1 else f"rank {rank}: {text}")
