"""Ring: carries orders to the ranks of one replica, and their answers, in shared memory.

Page 0 has the number of orders given. Behind it are the words that idle ranks sleep on. Each of
`depth` slots has an order, the states of the ranks, and their answers: see RingLayout. The slot of
an order is its number modulo `depth`, free again once all ranks have answered. The last rank to
answer notifies the waiting caller's slot, or rings an eventfd. Words that tell of one order are
marks (order_state.py): none has to be cleared.

Every rank can write all of it, and a faulty one may write anything. So the orchestrator reads
nothing that it knows itself. Orders and answers have checksums.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from zlib import crc32

import msgspec

from ..errors import RankmeshError
from ..host.sealed_memory import FIXED, create_sealed
from ..job_memory import futex
from .brief_watch import BriefWatch
from .caller_slots import NO_SLOT, CallerSlots
from .order_state import (
    ANSWERED,
    AS_ORDERED_WORD,
    GRANTED,
    NEEDS_ROOM,
    OrderState,
    mark_word,
    state_of,
)
from .orders import (
    AS_ORDERED,
    Answer,
    InvalidRankData,
    Order,
    OutputBuffer,
    decode_answer,
    decode_order,
    encode_answer,
)
from .ring_layout import PAGE, TEXT, WORD, RingLayout
from .sleepers import Sleepers

_LONGEST = TEXT - PAGE
"""Bytes of an order or answer: the rest of its space has the words before them."""

_MAGIC = int.from_bytes(b"RANKRING", "little")
_GIVEN_WORD = 3
"""Behind the magic, the number of ranks, and that of slots."""

_SEAT, _THERE, _ORDER_TEXT = range(3)
"""Words of an order: the slot of the caller that waits, a mark, and its length and bytes."""

_SUM, _BEGUN, _RECALL, _GRANT_OFFSET, _GRANT_SIZE, _GRANT_CHECK = range(6)
_IS_THERE, _HAS_BEGUN = mark_word(b"ordr"), mark_word(b"begn")
_ASKED, _RECALLED = mark_word(b"askd"), mark_word(b"recl")


class Ring:
    """One process's view. One thread at a time gives orders; each rank takes them in order."""

    def __init__(self, fd: int, bell: int, seats: CallerSlots) -> None:
        """Map the file `fd`; `bell` is the eventfd. RankmeshError where `fd` is not a ring."""
        mapping = mmap.mmap(fd, os.fstat(fd).st_size)
        self._bytes = memoryview(mapping)
        self._words = words = self._bytes.cast("Q")
        magic, self.world_size, self.depth, self.given = words[: _GIVEN_WORD + 1]
        if magic != _MAGIC:
            raise RankmeshError(f"file descriptor {fd} is no ring of orders")
        self._watch = BriefWatch(words, _GIVEN_WORD, seats.spare)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
        self._bell = bell
        self._seats = seats
        layout, ranks = RingLayout(self.world_size, self.depth), range(self.world_size)
        self._orders = [*map(layout.order, range(self.depth))]
        self._lines = [[layout.line(slot, rank) for rank in ranks] for slot in range(self.depth)]
        tables = [layout.table, *map(layout.states, range(self.depth))]
        sleepers, *self._states = [words[at : at + len(ranks)] for at in tables]
        self._sleepers = Sleepers(sleepers, self._address + layout.table * WORD)

    @staticmethod
    def create(world_size: int, depth: int) -> int:
        """The descriptor of a new ring."""
        fd = create_sealed("ring", RingLayout(world_size, depth).size, FIXED)
        with mmap.mmap(fd, PAGE) as page:
            words = [_MAGIC, world_size, depth]
            page[: len(words) * WORD] = b"".join(word.to_bytes(WORD, "little") for word in words)
        return fd

    @property
    def round_trip(self) -> float:
        """Seconds to the ranks and back at least, where they are on another host."""
        return 0.0

    def give(self, number: int, order: bytes, seat: int = NO_SLOT) -> None:
        """Give the order `number`, the next one; its slot of the ring must be free.

        `seat` is the slot of the caller that waits for the answers; without one the ranks ring.
        Raises RankmeshError where the order is too long.
        """
        words, at = self._words, self._orders[number % self.depth]
        self._write(at + _ORDER_TEXT, order)
        words[at + _SEAT] = seat
        words[at + _THERE] = _IS_THERE + number
        futex.order_fence()
        self.given = words[_GIVEN_WORD] = number + 1
        futex.full_fence()
        if self._sleepers.wait_for(number):
            self._seats.wake_ranks(seat, self._sleepers.wake, number)

    def wait(self, seat: int) -> None:
        """Wait at a slot for answers. It may be late: the caller looks for them each time."""
        self._seats.wait(seat)

    def abandon(self, number: int) -> None:
        """Have the answers to come ring: the caller waits no more."""
        self._words[self._orders[number % self.depth] + _SEAT] = NO_SLOT
        futex.full_fence()

    def recall(self, number: int) -> bool:
        """Take back an order that the one rank of a replica has not begun; whether it will not."""
        words, line = self._words, self._lines[number % self.depth][0]
        words[line + _RECALL] = _ASKED + number
        # either this sees that the rank has begun, or the rank sees the question
        futex.full_fence()
        begun = words[line + _BEGUN] == _HAS_BEGUN + number
        words[line + _RECALL] = 0 if begun else _RECALLED + number
        futex.full_fence()
        futex.wake(self._address + (line + _RECALL) * WORD)
        return not begun

    def state(self, number: int, rank: int) -> OrderState:
        """State of `rank` in an order that is under way. Raises InvalidRankData."""
        mark = self._states[number % self.depth][rank]
        state = state_of(mark, number, self.depth)
        if state is None:
            raise InvalidRankData(rank, f"wrote {mark:#x} where the state of its request stands")
        return state

    def answered(self, number: int) -> bool:
        """Whether all ranks have answered the order."""
        states = self._states[number % self.depth].tolist()
        count = states.count(AS_ORDERED_WORD + number)
        return count == len(states) or count + states.count(ANSWERED + number) == len(states)

    def answers(self, number: int) -> dict[int, Answer] | None:
        """By rank: the answers of those that have not just done as ordered; None until all ranks
        have answered. Raises InvalidRankData.
        """
        if not self.answered(number):
            return None
        futex.order_fence()
        marks, answered = self._states[number % self.depth], ANSWERED + number
        if answered not in marks:
            return {}
        return {one: self.answer(number, one) for one, mark in enumerate(marks) if mark == answered}

    def has_news(self, number: int) -> bool:
        """Whether some rank has answered, asks for memory, or has written what cannot be."""
        marks = {*self._states[number % self.depth].tolist()}
        none = OrderState.FREE, OrderState.GRANTED
        return any(state_of(mark, number, self.depth) not in none for mark in marks)

    def answer(self, number: int, rank: int) -> Answer:
        """The answer of a rank that has answered, or that needs room. Raises InvalidRankData."""
        futex.order_fence()
        if self._states[number % self.depth][rank] == AS_ORDERED_WORD + number:
            return AS_ORDERED
        line = self._lines[number % self.depth][rank]
        try:
            answer, checksum = decode_answer(bytes(self._read(line + PAGE // WORD)))
        except msgspec.DecodeError as error:
            raise InvalidRankData(rank, f"gave an answer that cannot be read: {error}") from error
        if checksum != self._words[line + _SUM]:
            text = "gave an answer that cannot be read: its bytes are not what was written"
            raise InvalidRankData(rank, text)
        return answer

    def release(self, number: int) -> None:
        """Let all ranks go on that `hold` after their answer."""
        for rank in range(self.world_size):
            self._tell(number, rank, OrderState.FREE)

    def grant(self, number: int, rank: int, room: OutputBuffer) -> None:
        """Give a rank the buffer for its outputs that it has asked for."""
        line = self._lines[number % self.depth][rank]
        self._words[line + _GRANT_OFFSET], self._words[line + _GRANT_SIZE] = room.offset, room.size
        self._words[line + _GRANT_CHECK] = room.checksum
        futex.order_fence()
        self._tell(number, rank, GRANTED + number)

    def take(self, number: int, rank: int) -> Order | None:
        """Wait, as `rank`, for the order `number`; None where it has been recalled.

        Raises RankmeshError where another rank has written over the order.
        """
        words = self._words
        if words[_GIVEN_WORD] <= number:
            self._await(number, rank)
        futex.order_fence()
        at, line = self._orders[number % self.depth], self._lines[number % self.depth][rank]
        if words[at + _THERE] != _IS_THERE + number:
            raise RankmeshError(f"order {number} was announced, and is not there")
        words[line + _BEGUN] = _HAS_BEGUN + number
        futex.full_fence()
        if words[line + _RECALL] and self._recalled(number, line + _RECALL):
            return None
        return decode_order(bytes(self._read(at + _ORDER_TEXT)))

    def _recalled(self, number: int, word: int) -> bool:
        """Wait until the orchestrator has seen whether its recall was in time."""
        while (now := self._words[word]) == _ASKED + number:
            futex.wait(self._address + word * 8, now)
        return now == _RECALLED + number

    def _await(self, number: int, rank: int) -> None:
        """Until the order `number` has been given."""
        if self._watch.sees(number):
            return
        while self._words[_GIVEN_WORD] <= number:
            self._sleepers.announce(rank, number)
            if self._words[_GIVEN_WORD] <= number:
                self._sleepers.sleep(rank, number)
        self._watch.woke()
        self._sleepers.wake(number, rank)

    def reply(self, number: int, rank: int, answer: Answer) -> None:
        """Answer an order; the last rank to answer notifies the caller, or rings."""
        word = AS_ORDERED_WORD if answer is AS_ORDERED else ANSWERED
        if answer is not AS_ORDERED:
            self._write_answer(number, rank, answer)
        futex.order_fence()
        self._states[number % self.depth][rank] = word + number
        futex.full_fence()
        if answer.error or self.answered(number):
            if (seat := self._words[self._orders[number % self.depth] + _SEAT]) != NO_SLOT:
                self._seats.notify(seat)
            else:
                os.eventfd_write(self._bell, 1)

    def hold(self, number: int, rank: int) -> None:
        """Wait, after an answer that is an error, until all ranks are in step.

        Another rank might else take what this one sends for its next order for a part of this one.
        """
        self._wait_while(number, rank, ANSWERED + number)

    def need_room(self, number: int, rank: int, answer: Answer) -> None:
        """Ask for a buffer as large as `answer` needs."""
        self._write_answer(number, rank, answer)
        futex.order_fence()
        self._states[number % self.depth][rank] = NEEDS_ROOM + number
        os.eventfd_write(self._bell, 1)

    def ask_for_room(self, number: int, rank: int, answer: Answer) -> OutputBuffer:
        """Wait for a buffer as large as `answer` needs."""
        self.need_room(number, rank, answer)
        self._wait_while(number, rank, NEEDS_ROOM + number)
        futex.order_fence()
        words, line = self._words, self._lines[number % self.depth][rank]
        room = OutputBuffer(words[line + _GRANT_OFFSET], words[line + _GRANT_SIZE])
        if words[line + _GRANT_CHECK] != room.checksum:
            raise RankmeshError("the room that was granted for outputs is not what was written")
        return room

    def _tell(self, number: int, rank: int, mark: int) -> None:
        """Write the state that a rank waits for."""
        self._states[number % self.depth][rank] = mark
        futex.full_fence()
        futex.wake(self._address + (self._orders[number % self.depth] + rank) * WORD + TEXT)

    def _wait_while(self, number: int, rank: int, mark: int) -> None:
        states, word = self._states[number % self.depth], self._orders[number % self.depth] + rank
        while states[rank] == mark:
            futex.wait(self._address + word * WORD + TEXT, mark)

    def _write_answer(self, number: int, rank: int, answer: Answer) -> None:
        data, line = encode_answer(answer), self._lines[number % self.depth][rank]
        self._write(line + PAGE // WORD, data)
        self._words[line + _SUM] = crc32(data)

    def _write(self, word: int, data: bytes) -> None:
        """Write bytes behind their length."""
        size, start = len(data), word * 8 + 8
        if size > _LONGEST:
            raise RankmeshError(
                f"an order or answer of {size} bytes is too long for its {_LONGEST} bytes: "
                "the model has too many inputs or outputs."
            )
        self._words[word] = size
        self._bytes[start : start + size] = data

    def _read(self, word: int) -> memoryview:
        return self._bytes[word * 8 + 8 :][: min(self._words[word], _LONGEST)]
