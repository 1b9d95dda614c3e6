"""Orders to the ranks of one group, and their answers, in one nameless shared-memory file.

Page 0 has the number of orders given, which is also the doorbell that all ranks sleep on. Then, for each of `depth`
slots: the order; and per rank a line of words (state, room granted) and the answer. An order's slot is its number
modulo `depth`, and is free again once all ranks have answered. Whoever completes an answer tells the thread that waits
for it at a seat, or rings an eventfd.

Every rank can write all of it, and a faulty one may write anything. So the orchestrator takes nothing from it that it
knows itself (how many orders there are), a state is one of a few words that no stray write hits, and orders and answers
have checksums.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
from enum import IntEnum
from zlib import crc32

import msgspec

from .. import futex
from ..errors import RankmeshError
from ..pause import pause
from .nonsense import Nonsense
from .orders import AS_ORDERED, Answer, Order, Room, decode_answer, decode_order, encode_answer
from .seats import NO_SEAT, Seats

_PAGE = 4096
_LINE = 128
_TEXT = 1 << 17
"""Address space of one order or answer; pages that nobody touches cost nothing."""

_LOOKS = 400
"""How often a rank looks for an order before it sleeps: about 0.2 ms, once after each that it has carried out."""

def _word(text: bytes) -> int:
    """A word that no stray write hits; below 2**30, as Python handles larger ones more slowly."""
    return int.from_bytes(text, "little") >> 2


_MAGIC = int.from_bytes(b"RANKRING", "little")
_MAGIC_WORD, _WORLD_WORD, _DEPTH_WORD, _GIVEN_WORD = range(4)
_STATE, _SUM, _SEAT, _BEGUN, _RECALL, _ASLEEP, _GRANT_OFFSET, _GRANT_SIZE, _GRANT_CHECK = range(9)
_ASKED, _RECALLED = _word(b"askd"), _word(b"recl")
_NOT_BEGUN = _word(b"idle")
"""Plus the order's number."""



class State(IntEnum):
    """Where a rank is with the order of a slot."""

    FREE = 0
    NEEDS_ROOM = _word(b"need")
    GRANTED = _word(b"gran")
    ANSWERED = _word(b"answ")


_ANSWERED = int(State.ANSWERED)
_AS_ORDERED = _word(b"orde")
"""Answered, too: with AS_ORDERED, which this word is all of."""

_STATES = {**{int(state): state for state in State}, _AS_ORDERED: State.ANSWERED}


class Ring:
    """One process's view. Orders are given by one thread at a time; a rank takes them in order, in one thread."""

    def __init__(self, fd: int, bell: int, seats: Seats) -> None:
        """Map the file `fd`; `bell` is the eventfd. Both stay the caller's. RankmeshError where `fd` is no ring."""
        self._looks = _LOOKS if seats.spare else 0
        mapping = mmap.mmap(fd, os.fstat(fd).st_size)
        self._bytes = memoryview(mapping)
        self._words = self._bytes.cast("Q")
        if self._words[_MAGIC_WORD] != _MAGIC:
            raise RankmeshError(f"file descriptor {fd} is no ring of orders")
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
        self.world_size, self.depth = self._words[_WORLD_WORD], self._words[_DEPTH_WORD]
        self._given = self._words[_GIVEN_WORD]
        self._bell, self._seats = bell, seats
        self._lines = [[(_PAGE + slot * _slot_bytes(self.world_size) + _TEXT + rank * (_PAGE + _TEXT)) // 8
                        for rank in range(self.world_size)] for slot in range(self.depth)]

    @staticmethod
    def create(world_size: int, depth: int) -> int:
        """The descriptor of a new ring."""
        fd = os.memfd_create("rankmesh-ring", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, _PAGE + depth * _slot_bytes(world_size))
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        with mmap.mmap(fd, _PAGE) as page:
            for word, value in ((_WORLD_WORD, world_size), (_DEPTH_WORD, depth), (_MAGIC_WORD, _MAGIC)):
                page[word * 8:word * 8 + 8] = value.to_bytes(8, "little")
        return fd

    @property
    def given(self) -> int:
        """How many orders this process has given: the next one's number."""
        return self._given

    # what the orchestrator does

    def give(self, number: int, order: bytes, seat: int = NO_SEAT) -> None:
        """Give the order `number`, the next one, encoded; its slot must be free. RankmeshError where it is too long.

        Who waits at `seat` is told of the answers, without one they ring.
        """
        words, lines = self._words, self._lines[number % self.depth]
        self._write(lines[0] * 8 - _TEXT, order)
        for line in lines:
            words[line + _STATE] = words[line + _RECALL] = 0
            words[line + _BEGUN] = _NOT_BEGUN + number
        words[lines[0] + _SEAT] = seat
        futex.order_fence()
        self._given = words[_GIVEN_WORD] = number + 1
        futex.full_fence()
        for line in lines:
            if words[line + _ASLEEP]:
                futex.wake(self._address + _GIVEN_WORD * 8)
                break

    def forsake(self, number: int) -> None:
        """Nobody waits at the order's seat any more: its answers ring, but for those that have come."""
        self._words[self._lines[number % self.depth][0] + _SEAT] = NO_SEAT
        futex.full_fence()

    def recall(self, number: int) -> bool:
        """Take an order back from a group of one rank; whether it had not begun with it, and will not."""
        words, line = self._words, self._lines[number % self.depth][0]
        words[line + _RECALL] = _ASKED
        futex.full_fence()  # either this sees that the rank has begun, or the rank sees the question
        begun = words[line + _BEGUN] != _NOT_BEGUN + number
        words[line + _RECALL] = 0 if begun else _RECALLED
        futex.full_fence()
        futex.wake(self._address + (line + _RECALL) * 8)
        return not begun

    def state(self, number: int, rank: int) -> State:
        """Where `rank` is with the order `number`, which has been given and not been forgotten. Raises Nonsense."""
        word = self._words[self._lines[number % self.depth][rank] + _STATE]
        if word not in _STATES:
            raise Nonsense(rank, f"wrote {word:#x} where the state of its request stands")
        return _STATES[word]

    def answered(self, number: int) -> bool:
        """Whether all ranks have answered the order."""
        words = self._words
        for line in self._lines[number % self.depth]:
            state = words[line + _STATE]
            if state != _AS_ORDERED and state != _ANSWERED:
                return False
        return True

    def answer(self, number: int, rank: int) -> Answer:
        """The answer of a rank that has answered, or that needs room. Raises Nonsense."""
        futex.order_fence()
        line = self._lines[number % self.depth][rank]
        if self._words[line + _STATE] == _AS_ORDERED:
            return AS_ORDERED
        try:
            answer, checksum = decode_answer(bytes(self._read(line * 8 + _PAGE)))
        except msgspec.DecodeError as error:
            raise Nonsense(rank, f"gave an answer that cannot be read: {error}") from error
        if checksum != self._words[line + _SUM]:
            raise Nonsense(rank, "gave an answer that cannot be read: its bytes are not what was written")
        return answer

    def release(self, number: int) -> None:
        """Let all ranks that hold after their answer go on."""
        for rank in range(self.world_size):
            line = self._lines[number % self.depth][rank]
            self._words[line + _STATE] = State.FREE
            futex.full_fence()
            futex.wake(self._address + (line + _STATE) * 8)

    def grant(self, number: int, rank: int, room: Room) -> None:
        """Let a rank that needs room have it."""
        line = self._lines[number % self.depth][rank]
        self._words[line + _GRANT_OFFSET], self._words[line + _GRANT_SIZE] = room.offset, room.size
        self._words[line + _GRANT_CHECK] = _check(room)
        futex.order_fence()
        self._words[line + _STATE] = State.GRANTED
        futex.full_fence()
        futex.wake(self._address + (line + _STATE) * 8)

    # what a rank does

    def take(self, number: int, rank: int) -> Order | None:
        """Wait for the order `number`; `rank` is who waits. None where it has been recalled.

        RankmeshError where what lies there is not that order, as another rank has written there.
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
        """Wait for the orchestrator to see whether it was in time."""
        while self._words[word] == _ASKED:
            futex.wait(self._address + word * 8, _ASKED)
        return self._words[word] == _RECALLED

    def _await(self, number: int, rank: int) -> None:
        """Until the order `number` has been given."""
        for _ in range(self._looks):
            if self._words[_GIVEN_WORD] > number:
                return
            pause()
        words, asleep = self._words, self._lines[number % self.depth][rank] + _ASLEEP
        words[asleep] = 1
        futex.full_fence()
        while words[_GIVEN_WORD] <= number:
            futex.wait_long(self._address + _GIVEN_WORD * 8, number)
        words[asleep] = 0

    def reply(self, number: int, rank: int, answer: Answer) -> None:
        """Answer an order; the last rank to do so wakes who attends to it, or rings."""
        words, lines = self._words, self._lines[number % self.depth]
        state = _AS_ORDERED
        if answer is not AS_ORDERED:
            state = _ANSWERED
            self._write_answer(lines[rank], answer)
        futex.order_fence()
        words[lines[rank] + _STATE] = state
        futex.full_fence()
        if answer.error or self.answered(number):
            self._tell(lines[0])

    def _tell(self, line: int) -> None:
        seat = self._words[line + _SEAT]
        if seat != NO_SEAT:
            self._seats.tell(seat)
        else:
            os.eventfd_write(self._bell, 1)

    def hold(self, number: int, rank: int) -> None:
        """After an answer that is an error: wait until the orchestrator has seen to it that all ranks are in step.

        What this rank would send for its next order, another might otherwise take for a part of this one.
        """
        line = self._lines[number % self.depth][rank]
        while self._words[line + _STATE] == State.ANSWERED:
            futex.wait(self._address + (line + _STATE) * 8, State.ANSWERED)

    def ask_for_room(self, number: int, rank: int, answer: Answer) -> Room:
        """Wait for as much room as `answer` needs."""
        line = self._lines[number % self.depth][rank]
        self._write_answer(line, answer)
        futex.order_fence()
        self._words[line + _STATE] = State.NEEDS_ROOM
        os.eventfd_write(self._bell, 1)
        while self._words[line + _STATE] == State.NEEDS_ROOM:
            futex.wait(self._address + (line + _STATE) * 8, State.NEEDS_ROOM)
        futex.order_fence()
        room = Room(self._words[line + _GRANT_OFFSET], self._words[line + _GRANT_SIZE])
        if self._words[line + _GRANT_CHECK] != _check(room):
            raise RankmeshError("the room that was granted for outputs is not what was written")
        return room

    def _write_answer(self, line: int, answer: Answer) -> None:
        data = encode_answer(answer)
        self._write(line * 8 + _PAGE, data)
        self._words[line + _SUM] = crc32(data)

    def _write(self, start: int, data: bytes) -> None:
        if len(data) > _TEXT - 8:
            raise RankmeshError(f"an order or answer of {len(data)} bytes is too long for its {_TEXT - 8} bytes: the "
                                f"model has too many inputs or outputs.")
        self._words[start // 8] = len(data)
        self._bytes[start + 8:start + 8 + len(data)] = data

    def _read(self, start: int) -> memoryview:
        return self._bytes[start + 8:start + 8 + min(self._words[start // 8], _TEXT - 8)]


def _check(room: Room) -> int:
    """Tells a room that was granted from stray words."""
    return room.offset ^ room.size ^ _MAGIC


def _slot_bytes(world_size: int) -> int:
    return _TEXT + world_size * (_PAGE + _TEXT)
