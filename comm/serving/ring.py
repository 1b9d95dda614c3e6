"""Ring: carries orders to the ranks of one replica, and their answers, in shared memory.

Page 0 has the number of orders given, which is also the word that idle ranks sleep on. Then, for
each of `depth` slots: the order, and per rank a line of words (state, buffer granted) and the
answer. An order's slot is its number modulo `depth`, free again once all ranks have answered. The
last rank to answer notifies the waiting caller's slot, or rings an eventfd.

Every rank can write all of it, and a faulty one may write anything. So the orchestrator reads
nothing that it knows itself. A state is one of a few words that no stray write hits; orders and
answers have checksums.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from enum import IntEnum
from zlib import crc32

import msgspec

from ..errors import RankmeshError
from ..host.sealed_memory import FIXED, create_sealed
from ..job_memory import futex
from .brief_watch import BriefWatch
from .caller_slots import NO_SLOT, CallerSlots
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

_PAGE = 4096
_LINE = 128
_TEXT = 1 << 17
"""Address space of one order or answer; pages that are not touched cost nothing."""


def _word(text: bytes) -> int:
    """A word that no stray write hits; below 2**30, as Python handles larger ones more slowly."""
    return int.from_bytes(text, "little") >> 2


_MAGIC = int.from_bytes(b"RANKRING", "little")
_MAGIC_WORD, _WORLD_WORD, _DEPTH_WORD, _GIVEN_WORD = range(4)
_STATE, _SUM, _SEAT, _BEGUN, _RECALL, _ASLEEP, _GRANT_OFFSET, _GRANT_SIZE, _GRANT_CHECK = range(9)
_ASKED, _RECALLED = _word(b"askd"), _word(b"recl")
_NOT_BEGUN = _word(b"idle")
"""Plus the order's number."""


class OrderState(IntEnum):
    """State of one rank in the order of a slot."""

    FREE = 0
    NEEDS_ROOM = _word(b"need")
    GRANTED = _word(b"gran")
    ANSWERED = _word(b"answ")


_ANSWERED, _GRANTED = int(OrderState.ANSWERED), int(OrderState.GRANTED)
_AS_ORDERED = _word(b"orde")
"""Answered, too: with AS_ORDERED, which this word is all of."""

_STATES = {**{int(state): state for state in OrderState}, _AS_ORDERED: OrderState.ANSWERED}


class Ring:
    """One process's view. One thread at a time gives orders; each rank takes them in order."""

    def __init__(self, fd: int, bell: int, seats: CallerSlots) -> None:
        """Map the file `fd`; `bell` is the eventfd. RankmeshError where `fd` is not a ring."""
        mapping = mmap.mmap(fd, os.fstat(fd).st_size)
        self._bytes = memoryview(mapping)
        self._words = self._bytes.cast("Q")
        if self._words[_MAGIC_WORD] != _MAGIC:
            raise RankmeshError(f"file descriptor {fd} is no ring of orders")
        self._watch = BriefWatch(self._words, _GIVEN_WORD, seats.spare)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
        self.world_size = self._words[_WORLD_WORD]
        self.depth = self._words[_DEPTH_WORD]
        self.given = self._words[_GIVEN_WORD]
        """Number of orders that this process has given, and of the next one."""

        self._bell = bell
        self._seats = seats
        self._lines = [_lines(self.world_size, slot) for slot in range(self.depth)]

    @staticmethod
    def create(world_size: int, depth: int) -> int:
        """The descriptor of a new ring."""
        fd = create_sealed("ring", _PAGE + depth * _slot_bytes(world_size), FIXED)
        with mmap.mmap(fd, _PAGE) as page:
            words = {_WORLD_WORD: world_size, _DEPTH_WORD: depth, _MAGIC_WORD: _MAGIC}
            for word, value in words.items():
                page[word * 8 : word * 8 + 8] = value.to_bytes(8, "little")
        return fd

    def give(self, number: int, order: bytes, seat: int = NO_SLOT) -> None:
        """Give the order `number`, the next one; its slot of the ring must be free.

        `seat` is the slot of the caller that waits for the answers; without one the ranks ring.
        Raises RankmeshError where the order is too long.
        """
        words, lines = self._words, self._lines[number % self.depth]
        self._write(lines[0] * 8 - _TEXT, order)
        for line in lines:
            words[line + _STATE] = words[line + _RECALL] = 0
            words[line + _BEGUN] = _NOT_BEGUN + number
        words[lines[0] + _SEAT] = seat
        futex.order_fence()
        self.given = words[_GIVEN_WORD] = number + 1
        futex.full_fence()
        for line in lines:
            if words[line + _ASLEEP]:
                futex.wake(self._address + _GIVEN_WORD * 8)
                break

    def abandon(self, number: int) -> None:
        """Have the answers to come ring: the caller waits no more."""
        self._words[self._lines[number % self.depth][0] + _SEAT] = NO_SLOT
        futex.full_fence()

    def recall(self, number: int) -> bool:
        """Take back an order that the one rank of a replica has not begun; whether it will not."""
        words, line = self._words, self._lines[number % self.depth][0]
        words[line + _RECALL] = _ASKED
        # either this sees that the rank has begun, or the rank sees the question
        futex.full_fence()
        begun = words[line + _BEGUN] != _NOT_BEGUN + number
        words[line + _RECALL] = 0 if begun else _RECALLED
        futex.full_fence()
        futex.wake(self._address + (line + _RECALL) * 8)
        return not begun

    def state(self, number: int, rank: int) -> OrderState:
        """State of `rank` in an order that is under way. Raises InvalidRankData."""
        word = self._words[self._lines[number % self.depth][rank] + _STATE]
        if word not in _STATES:
            raise InvalidRankData(rank, f"wrote {word:#x} where the state of its request stands")
        return _STATES[word]

    def answered(self, number: int) -> bool:
        """Whether all ranks have answered the order."""
        words = self._words
        for line in self._lines[number % self.depth]:
            state = words[line + _STATE]
            if state != _AS_ORDERED and state != _ANSWERED:
                return False
        return True

    def has_news(self, number: int) -> bool:
        """Whether some rank has answered, asks for memory, or has written what cannot be."""
        lines = self._lines[number % self.depth]
        return any(self._words[line + _STATE] not in (0, _GRANTED) for line in lines)

    def answer(self, number: int, rank: int) -> Answer:
        """The answer of a rank that has answered, or that needs room. Raises InvalidRankData."""
        futex.order_fence()
        line = self._lines[number % self.depth][rank]
        if self._words[line + _STATE] == _AS_ORDERED:
            return AS_ORDERED
        try:
            answer, checksum = decode_answer(bytes(self._read(line * 8 + _PAGE)))
        except msgspec.DecodeError as error:
            raise InvalidRankData(rank, f"gave an answer that cannot be read: {error}") from error
        if checksum != self._words[line + _SUM]:
            text = "gave an answer that cannot be read: its bytes are not what was written"
            raise InvalidRankData(rank, text)
        return answer

    def release(self, number: int) -> None:
        """Let all ranks go on that `hold` after their answer."""
        for line in self._lines[number % self.depth]:
            self._words[line + _STATE] = OrderState.FREE
            futex.full_fence()
            futex.wake(self._address + (line + _STATE) * 8)

    def grant(self, number: int, rank: int, room: OutputBuffer) -> None:
        """Give a rank the buffer for its outputs that it has asked for."""
        line = self._lines[number % self.depth][rank]
        self._words[line + _GRANT_OFFSET], self._words[line + _GRANT_SIZE] = room.offset, room.size
        self._words[line + _GRANT_CHECK] = room.checksum
        futex.order_fence()
        self._words[line + _STATE] = OrderState.GRANTED
        futex.full_fence()
        futex.wake(self._address + (line + _STATE) * 8)

    def take(self, number: int, rank: int) -> Order | None:
        """Wait, as `rank`, for the order `number`; None where it has been recalled.

        Raises RankmeshError where another rank has written over the order.
        """
        words = self._words
        if words[_GIVEN_WORD] <= number:
            self._await(number, rank)
        futex.order_fence()
        lines = self._lines[number % self.depth]
        begun = lines[rank] + _BEGUN
        if words[begun] != _NOT_BEGUN + number:
            raise RankmeshError(f"order {number} was announced, and is not there")
        words[begun] = 1
        futex.full_fence()
        if words[lines[rank] + _RECALL] and self._recalled(lines[rank] + _RECALL):
            return None
        return decode_order(bytes(self._read(lines[0] * 8 - _TEXT)))

    def _recalled(self, word: int) -> bool:
        """Wait until the orchestrator has seen whether its recall was in time."""
        while (now := self._words[word]) == _ASKED:
            futex.wait(self._address + word * 8, _ASKED)
        return now == _RECALLED

    def _await(self, number: int, rank: int) -> None:
        """Until the order `number` has been given."""
        if self._watch.sees(number):
            return
        words, asleep = self._words, self._lines[number % self.depth][rank] + _ASLEEP
        words[asleep] = 1
        futex.full_fence()
        while words[_GIVEN_WORD] <= number:
            futex.wait_long(self._address + _GIVEN_WORD * 8, number)
        words[asleep] = 0

    def reply(self, number: int, rank: int, answer: Answer) -> None:
        """Answer an order; the last rank to answer notifies the caller, or rings."""
        words, lines = self._words, self._lines[number % self.depth]
        state = _AS_ORDERED if answer is AS_ORDERED else _ANSWERED
        if answer is not AS_ORDERED:
            self._write_answer(lines[rank], answer)
        futex.order_fence()
        words[lines[rank] + _STATE] = state
        futex.full_fence()
        if answer.error or self.answered(number):
            if (seat := words[lines[0] + _SEAT]) != NO_SLOT:
                self._seats.notify(seat)
            else:
                os.eventfd_write(self._bell, 1)

    def hold(self, number: int, rank: int) -> None:
        """Wait, after an answer that is an error, until all ranks are in step.

        Another rank might else take what this one sends for its next order for a part of this one.
        """
        line = self._lines[number % self.depth][rank]
        while self._words[line + _STATE] == OrderState.ANSWERED:
            futex.wait(self._address + (line + _STATE) * 8, OrderState.ANSWERED)

    def need_room(self, number: int, rank: int, answer: Answer) -> int:
        """Ask for a buffer as large as `answer` needs; the rank's line."""
        line = self._lines[number % self.depth][rank]
        self._write_answer(line, answer)
        futex.order_fence()
        self._words[line + _STATE] = OrderState.NEEDS_ROOM
        os.eventfd_write(self._bell, 1)
        return line

    def ask_for_room(self, number: int, rank: int, answer: Answer) -> OutputBuffer:
        """Wait for a buffer as large as `answer` needs."""
        line = self.need_room(number, rank, answer)
        while self._words[line + _STATE] == OrderState.NEEDS_ROOM:
            futex.wait(self._address + (line + _STATE) * 8, OrderState.NEEDS_ROOM)
        futex.order_fence()
        room = OutputBuffer(self._words[line + _GRANT_OFFSET], self._words[line + _GRANT_SIZE])
        if self._words[line + _GRANT_CHECK] != room.checksum:
            raise RankmeshError("the room that was granted for outputs is not what was written")
        return room

    def _write_answer(self, line: int, answer: Answer) -> None:
        data = encode_answer(answer)
        self._write(line * 8 + _PAGE, data)
        self._words[line + _SUM] = crc32(data)

    def _write(self, start: int, data: bytes) -> None:
        if len(data) > _TEXT - 8:
            raise RankmeshError(
                f"an order or answer of {len(data)} bytes is too long for its {_TEXT - 8} bytes: "
                "the model has too many inputs or outputs."
            )
        self._words[start // 8] = len(data)
        self._bytes[start + 8 : start + 8 + len(data)] = data

    def _read(self, start: int) -> memoryview:
        return self._bytes[start + 8 : start + 8 + min(self._words[start // 8], _TEXT - 8)]


def _lines(world_size: int, slot: int) -> list[int]:
    """By rank: the index of the first word of its line in a slot."""
    start = _PAGE + slot * _slot_bytes(world_size) + _TEXT
    return [(start + rank * (_PAGE + _TEXT)) // 8 for rank in range(world_size)]


def _slot_bytes(world_size: int) -> int:
    return _TEXT + world_size * (_PAGE + _TEXT)
