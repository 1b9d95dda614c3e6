"""What callers offer as new weights: by rank, found by the ranks, and in memory once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mindir_models import fails

from rankmesh import InputError
from rankmesh.comm.request_memory.owned_arena import OwnedArena
from rankmesh.comm.serving.weights import (
    ResolveWeights,
    WeightReply,
    WeightRequest,
    WeightTensor,
    WriteWeights,
    decode_weight_request,
)
from rankmesh.orchestrator.replica.control import PlacedRequest
from rankmesh.orchestrator.scheduling.replica_weights import ReplicaWeights, exported_weights
from rankmesh.orchestrator.weights.payload import WeightCollector, WeightPayload

A, B = np.full((2, 3), 5, np.float32), np.arange(4, dtype=np.int8)


@pytest.fixture
def arena() -> Iterator[OwnedArena]:
    arena = OwnedArena(0, 1 << 30)
    yield arena
    arena.close()


def ranks_with(*names: Sequence[str]) -> Callable[[Sequence[PlacedRequest]], list[WeightReply]]:
    """Ranks that have weights of these names, of whatever type is offered."""

    def ask(requests: Sequence[PlacedRequest]) -> list[WeightReply]:
        questions = [decode_weight_request(request.data) for request in requests]
        return [reply(question, mine) for question, mine in zip(questions, names, strict=True)]

    def reply(question: WeightRequest, mine: Sequence[str]) -> WeightReply:
        if isinstance(question, WriteWeights):
            return WeightReply()
        assert isinstance(question, ResolveWeights)
        unknown = [one.name for one in question.offered if one.name not in mine]
        found = {
            one.name: WeightTensor(f"its {one.name}", one.dtype, one.shape)
            for one in question.offered
            if one.name in mine
        }
        return WeightReply(found, unknown, f"no {unknown[0]} here." if unknown else "")

    return ask


def gathered(
    arena: OwnedArena,
    given: Any,
    *names: Sequence[str],
    now: ReplicaWeights | None = None,
    delta: bool = False,
) -> ReplicaWeights:
    offer = WeightPayload.of(given, len(names))
    new = WeightCollector(arena).weights(offer, delta, ranks_with(*names), lambda: None)
    return (now or exported_weights(len(names))).updated(1, new)


def arrays(arena: OwnedArena, edition: ReplicaWeights) -> list[dict[str, Any]]:
    return [
        {
            name: arena.view(
                held.weight.offset,
                np.dtype(held.weight.dtype),
                held.weight.shape,
                int(np.prod(held.weight.shape)) * np.dtype(held.weight.dtype).itemsize,
            ).tolist()
            for name, held in rank.items()
        }
        for rank in edition.ranks
    ]


def test_arrays_go_to_all_ranks_that_have_them_in_memory_once(arena: OwnedArena):
    edition = gathered(arena, {"a": A, "b": B}, ["a"], ["a", "b"])
    assert arrays(arena, edition) == [
        {"its a": A.tolist()},
        {"its a": A.tolist(), "its b": B.tolist()},
    ]
    assert arena.used == 2 * 4096
    assert (
        edition.version == 1
        and edition.at_start(0) == edition.staged(0)
        and exported_weights(2).at_start(0) is None
    )
    del edition
    assert arena.used == 0


def test_ranks_may_have_arrays_of_their_own(arena: OwnedArena):
    by_rank = gathered(arena, {1: {"a": A}}, ["a"], ["a"])
    assert arrays(arena, by_rank) == [{}, {"its a": A.tolist()}]
    listed = gathered(arena, [{"a": A}, {"a": A + 1}], ["a"], ["a"], now=by_rank)
    assert arrays(arena, listed) == [{"its a": A.tolist()}, {"its a": (A + 1).tolist()}]
    assert listed.version == 2


def test_what_a_rank_adds_to_is_in_memory_of_its_own(arena: OwnedArena):
    edition = gathered(arena, {"a": A}, ["a"], ["a"], delta=True)
    assert len({rank["its a"].weight.offset for rank in edition.ranks}) == 2


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"a": A, "c": B}, "rank 0: no c here."),
        ({"b": B, "c": B, "d": B}, "rank 0: no rank has a weight 'c'. Likewise d, 2 in all."),
        ([{"a": A}, {"c": B}], "rank 1: no c here."),
        ({0: {"b": B}}, "rank 0: no b here."),
        ({}, "got no tensors to update weights with"),
        ([{}, {}], "got no tensors to update weights with"),
        ({2: {"a": A}}, "got weights for the ranks 2"),
        ([{}, {}, {}], "got weights for the ranks 2"),
        ([A, A], "expected a file, a dict from name to array"),
        ({"a": A, 1: {}}, "got weights for the ranks a"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_named_before_memory_is_taken(
    arena: OwnedArena, given: Any, text: str
):
    fails(InputError, text, gathered, arena, given, ["a"], ["a", "b"])
    assert arena.used == 0


def test_files_are_one_for_all_or_one_per_rank(tmp_path: Path):
    for name in ("w0.npz", "w1.npz", "all.npz"):
        (tmp_path / name).touch()
    common, own = (
        WeightPayload.of(tmp_path / "all.npz", 2),
        WeightPayload.of(str(tmp_path / "w{rank}.npz"), 2),
    )
    assert common == WeightPayload(({}, {}), str(tmp_path / "all.npz"), True)
    assert own == WeightPayload(({}, {}), str(tmp_path / "w{rank}.npz"), False)
    assert own.find(1, True) == ResolveWeights([], str(tmp_path / "w{rank}.npz"), True)
    fails(InputError, "w2.npz: no such file", WeightPayload.of, str(tmp_path / "w{rank}.npz"), 3)
    fails(InputError, "no such file", WeightPayload.of, "nothing.npz", 1)
