"""Caller slots: let threads wait for answers, each at a line of shared memory and an eventfd."""

from __future__ import annotations

import mmap
import os
import select
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from ..host.sealed_memory import FIXED, create_sealed
from ..job_memory import futex
from ..job_memory.cpu_relax import cpu_relax

_LINE = 16  # words: two cache lines, as processors fetch them in pairs
_SEATS = 64
_TOLD, _ASLEEP = range(2)
_LOOKS = 100
"""How often a caller looks before it sleeps: 0.05 ms, less than a rank, as its program's other
threads wait for it.
"""

_FAR = 3
"""How many times as often it looks for an answer from another host, which takes longer."""

_ONE = (1).to_bytes(8, "little")

NO_SLOT = 0

Wake = Callable[[int], None]
"""Wakes the ranks that sleep for the order of a number."""


class CallerSlots:
    """One process's view of the slots. A thread waits in the slot that it has taken; other
    processes notify it by the slot's number.

    A notification may be meant for the thread that had the slot before: the thread that it wakes
    looks for itself. Eventfds wake it, as Python reads and writes files sooner than it calls a
    function of libc through ctypes.
    """

    def __init__(self, files: Sequence[int], spare: bool) -> None:
        """`files` are those of `create`; the slots own them from now on.

        `spare`: there is a core for each rank and one more. A thread then looks for a while before
        it sleeps, as waking an idle core takes longer than a small request.
        """
        self.files = tuple(files)
        self._words = memoryview(mmap.mmap(files[0], _SEATS * _LINE * 8)).cast("Q")
        self.set_spare(spare)
        self._free, self._closed = deque(range(1, _SEATS)), False
        self._lock = threading.Lock()
        self._polls: dict[tuple[int, int], select.poll] = {}
        self._turns: dict[int, _LoopTurn] = {}

    def set_spare(self, spare: bool) -> None:
        """Whether a thread looks for a while before it sleeps."""
        self.spare = spare
        self._looks = _LOOKS if spare else 0

    @staticmethod
    def create() -> tuple[int, ...]:
        """The descriptors of new seats; OSError where there are no more to be had."""
        files = [create_sealed("seats", _SEATS * _LINE * 8, FIXED)]
        try:
            while len(files) < _SEATS:
                files.append(os.eventfd(0, os.EFD_CLOEXEC))
        except OSError:
            _close(files)
            raise
        return tuple(files)

    def close(self) -> None:
        """Wake all threads that wait; the files are closed once all slots are free."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for file in self.files[1:]:
                os.write(file, _ONE)
        self._let_go()

    def _let_go(self) -> None:
        """Close the files and drop the mapping if all slots are free; later notifications do
        nothing.
        """
        with self._lock:
            if len(self._free) == _SEATS - 1:
                files, self.files = self.files, ()
                self._words = memoryview(bytearray(_SEATS * _LINE * 8)).cast("Q")
                _close(files)

    def __del__(self) -> None:
        _close(getattr(self, "files", ()))

    def take(self) -> int:
        """The number of a free slot, NO_SLOT where there is none; from any thread of the owner."""
        if self._closed:
            return NO_SLOT
        try:
            seat = self._free.pop()
        except IndexError:
            return NO_SLOT
        self._words[seat * _LINE + _TOLD] = 0
        return seat

    def coalesce(self, seat: int, call_soon: Callable[[Callable[[], None]], object]) -> None:
        """Wake ranks for the orders of a slot once a turn of this thread's event loop, at its end,
        until the slot is left. `call_soon` has the loop call a function then.
        """
        self._turns[seat] = _LoopTurn(call_soon)

    def wake_ranks(self, seat: int, wake: Wake, number: int) -> None:
        """Wake the ranks that sleep for an order of the caller at a slot: at the end of the turn of
        the loop that watches it, else now.
        """
        turn = self._turns.get(seat)
        if turn is None or not turn.add(wake, number):
            wake(number)

    def watch(self, seat: int) -> int:
        """The descriptor of a slot, for an event loop: each notification makes it readable."""
        self._words[seat * _LINE + _ASLEEP] = 1
        futex.full_fence()
        return self.files[seat]

    def acknowledge(self, seat: int) -> None:
        """Take the notification of a watched slot; its owner looks for its news afterwards."""
        os.read(self.files[seat], 8)
        self._words[seat * _LINE + _TOLD] = 0
        futex.full_fence()

    def leave(self, seat: int) -> None:
        """Free a slot."""
        if seat != NO_SLOT:
            self._turns.pop(seat, None)
            self._words[seat * _LINE + _ASLEEP] = 0
            self._free.append(seat)
            if self._closed:
                self._let_go()

    def wait(self, seat: int) -> None:
        """Wait for a notification. It may be late: the caller looks for its news each time."""
        words, told = self._words, seat * _LINE + _TOLD
        for _ in range(self._looks):
            if words[told]:
                break
            cpu_relax()
        else:
            words[told + _ASLEEP] = 1
            futex.full_fence()
            if not words[told]:
                os.read(self.files[seat], 8)
            words[told + _ASLEEP] = 0
        words[told] = 0
        futex.full_fence()

    def wait_beside(self, seat: int, descriptor: int) -> bool:
        """As `wait`, or until a descriptor is readable; whether a notification may have come."""
        words, told, bell = self._words, seat * _LINE + _TOLD, self.files[seat]
        words[told + _ASLEEP] = 1
        futex.full_fence()
        rung = bool(words[told])
        if not rung:
            poll = self._polls.get((bell, descriptor)) or self._poll_of(bell, descriptor)
            for _ in range(_FAR * self._looks):
                if found := poll.poll(0):
                    break
            else:
                found = poll.poll()
            rung = bell in [ready for ready, _ in found]
            if rung:
                os.read(bell, 8)
        words[told + _ASLEEP] = 0
        if rung:
            words[told] = 0
            futex.full_fence()
        return rung

    def _poll_of(self, bell: int, descriptor: int) -> select.poll:
        poll = self._polls[bell, descriptor] = select.poll()
        for one in (bell, descriptor):
            poll.register(one, select.POLLIN)
        return poll

    def notify(self, seat: int) -> None:
        """Wake the caller at a slot, behind a full fence; for a process that does not close the
        slots.
        """
        words, told = self._words, seat * _LINE + _TOLD
        if words[told]:  # and it has not looked since
            return
        words[told] = 1
        futex.full_fence()
        if words[told + _ASLEEP]:
            os.write(self.files[seat], _ONE)

    def announce(self, seat: int) -> None:
        """As `notify`, where another thread may close the slots, and then without effect.

        Rings in any case: a faulty rank may have written that no caller is asleep there.
        """
        with self._lock:
            if self.files:
                self._words[seat * _LINE + _TOLD] = 1
                os.write(self.files[seat], _ONE)

    def remind(self) -> None:
        """Wake the threads that sleep at a seat: Python handles a signal of just before only
        afterwards.
        """
        with self._lock:
            for seat, file in enumerate(self.files):
                if seat and self._words[seat * _LINE + _ASLEEP]:
                    os.write(file, _ONE)


class _LoopTurn:
    """The wakes that wait for the end of a turn of one event loop.

    A wake costs its giver up to 10 us on a virtual machine. A rank that is woken at the first order
    of a turn carries it out before the loop gives the next one, and sleeps again.
    """

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._thread = threading.get_ident()
        self._due: list[tuple[Wake, int]] = []

    def add(self, wake: Wake, number: int) -> bool:
        """Wake for an order at the end of the turn; False in a thread that is not the loop's."""
        if threading.get_ident() != self._thread:
            return False
        if not self._due:
            self._call_soon(self._wake)
        self._due.append((wake, number))
        return True

    def _wake(self) -> None:
        due, self._due = self._due, []
        for wake, number in due:
            wake(number)


def _close(files: Iterable[int]) -> None:
    for file in files:
        os.close(file)
