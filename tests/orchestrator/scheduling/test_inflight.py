"""Orders of one replica: how many it takes, which come back, what its ranks may answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from played_model import PlayedModel, PlayedReplica, PlayedRequest, played

from rankmesh.comm.serving.order_state import OrderState
from rankmesh.comm.serving.orders import Answer, InvalidRankData, Switch, TensorRef
from rankmesh.orchestrator.scheduling.inflight import (
    BRIEF_SECONDS,
    MOST_AHEAD,
    QUICK_SECONDS,
    InflightBatches,
)
from rankmesh.orchestrator.scheduling.replica_weights import ReplicaWeights

pytestmark = pytest.mark.pure


@dataclass
class Replica:
    """The orders of one replica, which no scheduler gives it."""

    model: PlayedModel
    played: PlayedReplica
    orders: InflightBatches

    def give(self, rows: int = 1) -> PlayedRequest:
        request = PlayedRequest(3, rows)
        request.inputs = self.model.client.interface.inputs.copied({"x": request.given})
        self.orders.give([request])
        return request

    def take_and_answer(self, seconds: float = 0.0) -> None:
        """The oldest order is carried out, which takes so long."""
        self.played.take()
        self.model.clock.now += seconds
        self.played.answer()
        assert self.orders.finish(self.orders.first)


@pytest.fixture
def alone() -> Iterator[Replica]:
    """A replica of one rank, which gets orders one by one."""
    with played() as model:
        yield Replica(model, model.replicas[0], model.scheduler.replicas[0].inflight)


@pytest.fixture
def ahead() -> Iterator[Replica]:
    """A replica of one rank, which may get orders ahead."""
    with played(ahead=True) as model:
        yield Replica(model, model.replicas[0], model.scheduler.replicas[0].inflight)


def test_one_order_at_a_time_and_none_once_it_is_closed(alone: Replica) -> None:
    assert alone.orders.load == 0
    alone.give()
    assert alone.orders.load is None and len(alone.orders) == 1
    alone.take_and_answer()
    assert alone.orders.load == 0 and alone.orders.completed
    alone.orders.close()
    assert alone.orders.load is None


@pytest.mark.parametrize(
    ("seconds", "most"),
    [(QUICK_SECONDS / 2, MOST_AHEAD), (QUICK_SECONDS * 2, 1), (BRIEF_SECONDS * 2, 0)],
)
def test_how_many_orders_are_ahead_depends_on_how_long_they_take(
    ahead: Replica, seconds: float, most: int
) -> None:
    ahead.give()
    ahead.take_and_answer(seconds)
    count = 0
    while ahead.orders.load is not None:
        ahead.give()
        count += 1
    assert count == 1 + most and ahead.orders.ahead is (most > 0)


def test_only_the_youngest_order_is_recalled_and_only_until_its_rank_begins(ahead: Replica) -> None:
    ahead.give()
    ahead.take_and_answer()
    first, second, third = (ahead.give() for _ in range(3))
    assert ahead.orders.recall(second) is None
    found = ahead.orders.recall(third)
    assert found is not None and found.requests == [third]
    for _ in range(2):
        ahead.played.take()
    assert ahead.orders.recall() is None
    assert ahead.orders.batch_of(first) and ahead.orders.batch_of(third) is None


def test_an_order_that_was_recalled_takes_no_room_once_it_is_passed(ahead: Replica) -> None:
    ahead.give()
    ahead.take_and_answer()
    for _ in range(3 * MOST_AHEAD):
        ahead.give()
        recalled = ahead.give()
        assert ahead.orders.recall(recalled) is not None
        ahead.take_and_answer()
    assert ahead.orders.load == 0


def test_a_switch_waits_for_room_and_no_request_passes_it(alone: Replica) -> None:
    alone.give()
    weights = ReplicaWeights(version=1, generation=4, ranks=())
    alone.orders.switch(weights)
    assert alone.orders.switching and alone.orders.load is None
    assert [type(one).__name__ for one in alone.orders.orders] == ["Batch"]
    alone.take_and_answer()
    assert alone.orders.load is None  # the switch is due first
    alone.orders.order_switch()
    assert alone.orders.weights_version == 1
    alone.played.take()
    assert alone.played.taken[0] == {1: Switch(4)}


def test_requests_come_back_when_the_ranks_are_gone(ahead: Replica) -> None:
    ahead.give()
    ahead.take_and_answer()
    requests = [ahead.give() for _ in range(3)]
    withdrawn = ahead.orders.withdraw()
    assert [one for order in withdrawn for one in order.requests] == requests
    assert ahead.orders.load is None and len(ahead.orders) == 0


def test_an_answer_in_memory_of_others_is_invalid_and_its_order_stays(alone: Replica) -> None:
    request = alone.give()
    batch = alone.orders.batch_of(request)
    (region,) = batch.regions.values()
    alone.played.take()
    alone.played.rings[0].reply(0, 0, Answer([TensorRef(region.offset + (1 << 20), (1, 2))]))
    with pytest.raises(InvalidRankData, match="memory that is not its request's"):
        alone.orders.finish(batch)
    assert len(alone.orders) == 1


def test_memory_is_granted_once_and_only_as_much_as_was_missing(alone: Replica) -> None:
    batch = alone.orders.batch_of(alone.give())
    before = batch.regions[0]
    rank = alone.played.rings[0]
    alone.played.take()
    rank.need_room(0, 0, Answer([], needed=before.size * 2))
    assert alone.orders.has_answers(batch)
    assert alone.orders.answers(batch) == {}
    assert alone.played.ring.state(0, 0) is OrderState.GRANTED
    assert batch.regions[0].size >= before.size * 2
    rank.need_room(0, 0, Answer([], needed=before.size * 4))
    with pytest.raises(InvalidRankData, match="which its request does not need"):
        alone.orders.answers(batch)


def test_the_results_are_those_of_the_ranks(alone: Replica) -> None:
    batch = alone.orders.batch_of(alone.give(rows=2))
    alone.take_and_answer()
    (result,) = batch.results(leased=True)
    np.testing.assert_array_equal(result["y"], np.full((2, 2), 6, np.float32))
