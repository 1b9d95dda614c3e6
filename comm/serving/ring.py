"""Orders to the ranks of one group, and their answers, in one nameless shared-memory file.

Page 0 has the number of orders given, which is also the doorbell that all ranks sleep on. Then, for each of `depth`
slots: the order; and per rank a line of words (state, room granted) and the answer. An order's slot is its number
modulo `depth`, and is free again once all ranks have answered. Whoever completes an answer rings an eventfd.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
from collections.abc import Callable
from enum import IntEnum

from .. import futex
from ..errors import RankmeshError
from .orders import Answer, Order, Room, decode_answer, decode_order, encode_answer, encode_order

_PAGE = 4096
_LINE = 128
_TEXT = 1 << 17
"""Address space of one order or answer; pages that nobody touches cost nothing."""

_LOOKS = 3000
"""How often a rank looks for an order before it sleeps: about 0.2 ms, once after each that it has carried out."""

_CALLER_SHARE = 4
"""A caller's part of that, as it keeps the interpreter from its program's other threads meanwhile."""

_MAGIC = int.from_bytes(b"RANKRING", "little")
_MAGIC_WORD, _WORLD_WORD, _DEPTH_WORD, _GIVEN_WORD = range(4)
_STATE, _GRANT_OFFSET, _GRANT_SIZE, _DONE, _ATTENDED = range(5)


class State(IntEnum):
    """Where a rank is with the order of a slot."""

    FREE = 0
    NEEDS_ROOM = 1
    GRANTED = 2
    ANSWERED = 3


class Ring:
    """One process's view. Orders are given by one thread at a time; a rank takes them in order, in one thread."""

    def __init__(self, fd: int, bell: int, spare: bool) -> None:
        """Map the file `fd`; `bell` is the eventfd. Both stay the caller's. RankmeshError where `fd` is no ring.

        `spare` says whether there is a core for each rank and one more: then whoever waits looks for a while before it
        sleeps, as waking a core that has gone to rest takes longer than a small request.
        """
        self._looks = _LOOKS if spare else 0
        mapping = mmap.mmap(fd, os.fstat(fd).st_size)
        self._bytes = memoryview(mapping)
        self._words = self._bytes.cast("Q")
        if self._words[_MAGIC_WORD] != _MAGIC:
            raise RankmeshError(f"file descriptor {fd} is no ring of orders")
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
        self.world_size, self.depth = self._words[_WORLD_WORD], self._words[_DEPTH_WORD]
        self._bell = bell

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
        """How many orders have been given: the next one's number."""
        return self._words[_GIVEN_WORD]

    # what the orchestrator does

    def give(self, number: int, order: Order) -> None:
        """Give the order `number`, the next one, whose slot must be free. RankmeshError where it is too long."""
        slot = number % self.depth
        self._write(self._order_byte(slot), encode_order(order))
        for rank in range(self.world_size):
            self._words[self._line(slot, rank) + _STATE] = State.FREE
        self._words[self._line(slot, 0) + _DONE] = self._words[self._line(slot, 0) + _ATTENDED] = 0
        futex.order_fence()
        self._words[_GIVEN_WORD] = number + 1
        futex.full_fence()
        futex.wake(self._address + _GIVEN_WORD * 8)

    def attend(self, number: int, idle: Callable[[], bool]) -> None:
        """Wait until all ranks have answered, or one has failed, in place of who waits for the bell.

        `idle` is asked now and then whether to wait on. Afterwards, whoever was waiting has to look at the answers.
        """
        done = self._line(number % self.depth, 0) + _DONE
        attended = done - _DONE + _ATTENDED
        self._words[attended] = 1
        futex.full_fence()
        words, looks = self._words, self._looks // _CALLER_SHARE
        try:
            while not words[done]:
                if looks:
                    looks -= 1
                elif not futex.wait(self._address + done * 8, 0) and not idle():
                    return
        finally:
            self._words[attended] = 0

    def state(self, number: int, rank: int) -> State:
        """Where `rank` is with the order `number`, which has been given and not been forgotten."""
        return State(self._words[self._line(number % self.depth, rank) + _STATE])

    def answered(self, number: int) -> bool:
        """Whether all ranks have answered the order."""
        slot = number % self.depth
        words = self._words
        return all(words[self._line(slot, rank) + _STATE] == State.ANSWERED for rank in range(self.world_size))

    def answer(self, number: int, rank: int) -> Answer:
        """The answer of a rank that has answered, or that needs room."""
        futex.order_fence()
        return decode_answer(self._read(self._answer_byte(number % self.depth, rank)))

    def release(self, number: int) -> None:
        """Let all ranks that hold after their answer go on."""
        for rank in range(self.world_size):
            line = self._line(number % self.depth, rank)
            self._words[line + _STATE] = State.FREE
            futex.full_fence()
            futex.wake(self._address + (line + _STATE) * 8)

    def grant(self, number: int, rank: int, room: Room) -> None:
        """Let a rank that needs room have it."""
        line = self._line(number % self.depth, rank)
        self._words[line + _GRANT_OFFSET], self._words[line + _GRANT_SIZE] = room.offset, room.size
        futex.order_fence()
        self._words[line + _STATE] = State.GRANTED
        futex.full_fence()
        futex.wake(self._address + (line + _STATE) * 8)

    # what a rank does

    def take(self, number: int) -> Order:
        """Wait for the order `number`."""
        words, looks = self._words, self._looks
        while words[_GIVEN_WORD] <= number:
            if looks:
                looks -= 1
            else:
                futex.wait_long(self._address + _GIVEN_WORD * 8, number)
        futex.order_fence()
        return decode_order(self._read(self._order_byte(number % self.depth)))

    def reply(self, number: int, rank: int, answer: Answer) -> None:
        """Answer an order; the last rank to do so wakes who attends to it, or rings."""
        slot = number % self.depth
        self._write(self._answer_byte(slot, rank), encode_answer(answer))
        futex.order_fence()
        self._words[self._line(slot, rank) + _STATE] = State.ANSWERED
        futex.full_fence()
        if answer.error or self.answered(number):
            self._tell(self._line(slot, 0))

    def _tell(self, line: int) -> None:
        self._words[line + _DONE] = 1
        futex.full_fence()
        if self._words[line + _ATTENDED]:
            futex.wake(self._address + (line + _DONE) * 8)
        else:
            os.eventfd_write(self._bell, 1)

    def hold(self, number: int, rank: int) -> None:
        """After an answer that is an error: wait until the orchestrator has seen to it that all ranks are in step.

        What this rank would send for its next order, another might otherwise take for a part of this one.
        """
        line = self._line(number % self.depth, rank)
        while self._words[line + _STATE] == State.ANSWERED:
            futex.wait(self._address + (line + _STATE) * 8, State.ANSWERED)

    def ask_for_room(self, number: int, rank: int, answer: Answer) -> Room:
        """Wait for as much room as `answer` needs."""
        slot = number % self.depth
        line = self._line(slot, rank)
        self._write(self._answer_byte(slot, rank), encode_answer(answer))
        futex.order_fence()
        self._words[line + _STATE] = State.NEEDS_ROOM
        os.eventfd_write(self._bell, 1)
        while self._words[line + _STATE] == State.NEEDS_ROOM:
            futex.wait(self._address + (line + _STATE) * 8, State.NEEDS_ROOM)
        futex.order_fence()
        return Room(self._words[line + _GRANT_OFFSET], self._words[line + _GRANT_SIZE])

    def _order_byte(self, slot: int) -> int:
        return _PAGE + slot * _slot_bytes(self.world_size)

    def _answer_byte(self, slot: int, rank: int) -> int:
        return self._order_byte(slot) + _TEXT + rank * (_PAGE + _TEXT) + _PAGE

    def _line(self, slot: int, rank: int) -> int:
        return (self._order_byte(slot) + _TEXT + rank * (_PAGE + _TEXT)) // 8

    def _write(self, start: int, data: bytes) -> None:
        if len(data) > _TEXT - 8:
            raise RankmeshError(f"an order or answer of {len(data)} bytes is too long for its {_TEXT - 8} bytes: the "
                                f"model has too many inputs or outputs.")
        self._words[start // 8] = len(data)
        self._bytes[start + 8:start + 8 + len(data)] = data

    def _read(self, start: int) -> memoryview:
        return self._bytes[start + 8:start + 8 + min(self._words[start // 8], _TEXT - 8)]


def _slot_bytes(world_size: int) -> int:
    return _TEXT + world_size * (_PAGE + _TEXT)
