"""The ring of orders with several ranks, each a view of its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest
from processes import PATIENCE

from rankmesh.comm.serving.caller_slots import CallerSlots
from rankmesh.comm.serving.order_state import AS_ORDERED_WORD, OrderState, state_of
from rankmesh.comm.serving.orders import (
    AS_ORDERED,
    Answer,
    OutputBuffer,
    OutputPart,
    Run,
    Stop,
    TensorRef,
    encode_order,
)
from rankmesh.comm.serving.ring import Ring

pytestmark = pytest.mark.pure

ORDER = encode_order(Run((TensorRef(0, (4,)),), (OutputPart(1, (0,), OutputBuffer(0, 4096)),)))
DEPTH = 2


class Rings:
    """The views of one ring: the orchestrator's, and those of its ranks."""

    def __init__(self, ranks: int) -> None:
        self.fd, self.bell = Ring.create(ranks, DEPTH), os.eventfd(0, os.EFD_NONBLOCK)
        self.slots = CallerSlots(CallerSlots.create(), spare=False)
        self.own, *self.ranks = [Ring(self.fd, self.bell, self.slots) for _ in range(ranks + 1)]

    def close(self) -> None:
        self.slots.close()
        os.close(self.fd)
        os.close(self.bell)


@pytest.fixture
def rings() -> Iterator[Rings]:
    made = Rings(3)
    yield made
    made.close()


def test_an_order_is_answered_by_all_ranks_whatever_its_slot_had_before(rings: Rings) -> None:
    said = Answer([TensorRef(64, (4,))])
    for number in range(3 * DEPTH):
        rings.own.give(number, ORDER)
        for rank, ring in enumerate(rings.ranks):
            assert rings.own.answers(number) is None
            assert rings.own.state(number, rank) is OrderState.FREE
            order = ring.take(number, rank)
            assert isinstance(order, Run)
            assert order.part(rank).positions == ((0,) if rank == 1 else ())
            ring.reply(number, rank, said if rank == 1 and number % 2 else AS_ORDERED)
            assert rings.own.state(number, rank) is OrderState.ANSWERED
        assert rings.own.answers(number) == ({1: said} if number % 2 else {})
        assert os.eventfd_read(rings.bell) == 1  # by the last rank alone


def test_news_are_told_before_all_have_answered(rings: Rings) -> None:
    for number in range(2 * DEPTH):
        rings.own.give(number, ORDER)
        assert not rings.own.has_news(number)
        rings.ranks[2].reply(number, 2, Answer([], error="ModelError"))
        assert rings.own.has_news(number) and rings.own.answers(number) is None
        rings.own.release(number)
        assert not rings.own.has_news(number)


def test_a_word_that_no_rank_writes_is_no_state() -> None:
    for word in (1, OrderState.ANSWERED + 1, OrderState.ANSWERED - DEPTH):
        assert state_of(word, 0, DEPTH) is None
    for word in (0, OrderState.ANSWERED, OrderState.NEEDS_ROOM + DEPTH):
        assert state_of(word, 2 * DEPTH, DEPTH) is OrderState.FREE


def test_marks_of_one_state_are_not_taken_for_another_however_many_orders_there_were() -> None:
    """By then a mark can be the word of another state and the number of an earlier order."""
    for number in range(1 << 40, (1 << 40) + 2 * DEPTH):
        for state in (OrderState.NEEDS_ROOM, OrderState.GRANTED, OrderState.ANSWERED):
            assert state_of(state + number, number, DEPTH) is state
        assert state_of(AS_ORDERED_WORD + number, number, DEPTH) is OrderState.ANSWERED


def test_sleeping_ranks_wake_each_other() -> None:
    rings = Rings(20)
    threads = [
        threading.Thread(target=ring.take, args=(0, rank), daemon=True)
        for rank, ring in enumerate(rings.ranks)
    ]
    for thread in threads:
        thread.start()
    rings.own.give(0, encode_order(Stop()))
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    rings.close()
