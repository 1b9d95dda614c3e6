"""State of a rank in an order: tells it by marks in the memory of a ring.

A mark is a word that no stray write hits, plus the order's number. So what an earlier order has
left says nothing of a later one, and need not be cleared.
"""

from __future__ import annotations

from enum import IntEnum


def mark_word(text: bytes) -> int:
    """The word of four letters; below 2**30, as Python handles larger ones more slowly."""
    return int.from_bytes(text, "little") >> 2


class OrderState(IntEnum):
    """State of one rank in an order: the word of its mark, but for FREE."""

    FREE = 0
    NEEDS_ROOM = mark_word(b"need")
    GRANTED = mark_word(b"gran")
    ANSWERED = mark_word(b"answ")


NEEDS_ROOM, GRANTED, ANSWERED = map(int, [*OrderState][1:])
AS_ORDERED_WORD = mark_word(b"orde")
"""Answered, too: with AS_ORDERED, which this mark is all of."""

_STATES = {
    NEEDS_ROOM: OrderState.NEEDS_ROOM,
    GRANTED: OrderState.GRANTED,
    ANSWERED: OrderState.ANSWERED,
    AS_ORDERED_WORD: OrderState.ANSWERED,
}


def state_of(mark: int, number: int, depth: int) -> OrderState | None:
    """The state that a mark tells of the order `number`; None where no rank has written it.

    Marks of earlier orders, each `depth` before the next, leave it FREE.
    """
    state = _STATES.get(mark - number)
    if state is not None:
        return state
    earlier = [mark - word for word in _STATES if word <= mark < word + number]
    if not mark or any((number - one) % depth == 0 for one in earlier):
        return OrderState.FREE
    return None
