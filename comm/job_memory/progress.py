"""Progress records: the stage of each rank and its collectives, in the arena."""

from __future__ import annotations

import os
import time
from enum import IntEnum

import msgspec

from ..collective_call import Call, Kind
from .arena import PAGE, RECORD_BYTES, Arena, record_byte

_STAGE, _ENTERED, _ENTERED_AT, _FINISHED, _LEAVING, _BEFORE, _RUN_TIME, _COLLECTIVE_TIME = range(8)
_CORES_BYTE, _CORES_BYTES = 256, 128
_NAMES_BYTE, _NAME_BYTES = PAGE, 256
_NAMES = (RECORD_BYTES - _NAMES_BYTE) // _NAME_BYTES
_KINDS = list(Kind)


class Stage(IntEnum):
    """The stage of a rank: STARTING before its first note, ENDED once its process is gone.

    A rank that is DONE may still write its build into the model cache. UNREADABLE stands for a
    record without a stage.
    """

    STARTING = 0
    READING = 1
    CHECKING = 2
    BUILDING = 3
    READY = 4
    RUNNING = 5
    DONE = 6
    FAILED = 7
    ENDED = 8
    UNREADABLE = 9


class EnteredCollective(msgspec.Struct, frozen=True):
    """A collective that a rank entered: `count` in its life, `index` in its program."""

    count: int
    index: int
    kind: Kind
    node: str

    def __str__(self) -> str:
        at = f" of node {self.node!r}" if self.node else ""
        return f"collective {self.index} ({self.kind.value}{at})"


class ProgressSnapshot(msgspec.Struct, frozen=True):
    """A rank's progress at one moment; `entered_at` is in nanoseconds of the monotonic clock.

    `before` is the stage before it ENDED. Not `sound` is a record that no rank writes in order.
    `run_seconds` is how long it has run requests so far, `collective_seconds` how long of that it
    was in collectives.
    """

    stage: Stage
    entered: EnteredCollective | None
    entered_at: int
    finished: EnteredCollective | None
    before: Stage = Stage.STARTING
    sound: bool = True
    run_seconds: float = 0.0
    collective_seconds: float = 0.0

    @property
    def waiting(self) -> bool:
        """Whether the rank is inside a collective."""
        return self.entered != self.finished

    def __str__(self) -> str:
        last = (
            f"last finished {self.finished}" if self.finished else "has finished no collective yet"
        )
        doing = f"was {self.before.name}" if self.stage is Stage.ENDED else f"is {self.stage.name}"
        if not self.waiting:
            return f"{doing} and {last}"
        since = (time.monotonic_ns() - self.entered_at) / 1e9
        return f"{doing}, inside {self.entered} for {since:.1f} s, and {last}"


class Progress:
    """The progress record of one rank.

    The rank writes it, and any process reads it, even if it has been overwritten.
    """

    def __init__(self, arena: Arena, rank: int) -> None:
        self._arena = arena
        self._words = arena.words
        self._start = record_byte(rank)
        self._first = self._start // 8
        self._entered = self._first + _ENTERED
        self._entered_at = self._first + _ENTERED_AT
        self._finished = self._first + _FINISHED

    @property
    def stage(self) -> Stage:
        """The stage of the rank."""
        return _stage(self._words[self._first + _STAGE])

    @stage.setter
    def stage(self, stage: Stage) -> None:
        before = self.stage
        if stage is Stage.ENDED and before is not Stage.ENDED:  # several may note this at once
            self._words[self._first + _BEFORE] = before
        self._words[self._first + _STAGE] = stage

    def leave(self) -> None:
        """Note that the process is about to end in order."""
        self._words[self._first + _LEAVING] = 1
        self.stage = Stage.ENDED

    @property
    def leaving(self) -> bool:
        """Whether the process ends, or has ended, in order."""
        return self._words[self._first + _LEAVING] == 1

    @property
    def count(self) -> int:
        """How many collectives the rank has entered."""
        return self._words[self._entered] >> 32

    @property
    def entered_at(self) -> int:
        """When the rank entered its latest collective, in nanoseconds of the monotonic clock."""
        return self._words[self._entered_at]

    def announce(self, call: Call) -> int:
        """Note the name of the call's node; returns the ticket of the call for `enter`."""
        name = call.node.encode()[-_NAME_BYTES + 1 :].decode(errors="ignore").encode()
        if call.index < _NAMES:
            start = self._start + _NAMES_BYTE + call.index * _NAME_BYTES
            self._bytes()[start : start + _NAME_BYTES] = name.ljust(_NAME_BYTES, b"\0")
        return call.index << 8 | _KINDS.index(call.kind) + 1

    def enter(self, count: int, ticket: int) -> None:
        """Note that the rank enters its `count`th collective, counted from 1."""
        words = self._words
        words[self._entered_at] = time.monotonic_ns()
        words[self._entered] = count << 32 | ticket

    def finish(self) -> None:
        """Note that the rank leaves the collective it entered last."""
        words = self._words
        words[self._finished] = words[self._entered]

    def note_times(self, run: int, in_collectives: int) -> None:
        """Note how many nanoseconds the rank has run requests so far, in all and in collectives."""
        words = self._words
        words[self._first + _RUN_TIME] = run
        if in_collectives:
            words[self._first + _COLLECTIVE_TIME] = in_collectives

    def read(self) -> ProgressSnapshot:
        """The record as it is now."""
        words, stage = self._words, self.stage
        entered, finished, before = (
            words[self._entered],
            words[self._finished],
            _stage(words[self._first + _BEFORE]),
        )
        sound = (
            Stage.UNREADABLE not in (stage, before) and _is_entry(entered) and _is_entry(finished)
        )
        return ProgressSnapshot(
            stage,
            self._entry(entered),
            self.entered_at,
            self._entry(finished),
            before,
            sound,
            words[self._first + _RUN_TIME] / 1e9,
            words[self._first + _COLLECTIVE_TIME] / 1e9,
        )

    def note_cores(self) -> None:
        """Note the cores on which the calling process may run; call it after pinning."""
        mask = sum(1 << core for core in os.sched_getaffinity(0) if core < _CORES_BYTES * 8)
        start = self._start + _CORES_BYTE
        self._bytes()[start : start + _CORES_BYTES] = mask.to_bytes(_CORES_BYTES, "little")

    def cores(self) -> int:
        """The cores on which the rank may run, as a mask; 0 until they are noted."""
        start = self._start + _CORES_BYTE
        return int.from_bytes(self._bytes()[start : start + _CORES_BYTES], "little")

    def _bytes(self) -> memoryview:
        return self._words.cast("B")

    def _entry(self, word: int) -> EnteredCollective | None:
        if not word or not _is_entry(word):
            return None
        index, kind = word >> 8 & 0xFFFFFF, _KINDS[(word & 0xFF) - 1]
        return EnteredCollective(word >> 32, index, kind, self._name(index))

    def _name(self, index: int) -> str:
        if index >= _NAMES:
            return ""
        start = self._start + _NAMES_BYTE + index * _NAME_BYTES
        return (
            bytes(self._bytes()[start : start + _NAME_BYTES]).rstrip(b"\0").decode(errors="replace")
        )


def _stage(word: int) -> Stage:
    return Stage(word) if word <= Stage.UNREADABLE else Stage.UNREADABLE


def _is_entry(word: int) -> bool:
    """Whether a word stands for an entered collective, or for none."""
    return not word or 0 < word & 0xFF <= len(_KINDS)
