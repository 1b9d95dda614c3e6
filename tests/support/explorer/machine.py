"""Machine of the explorer: memory, futexes, event descriptors and clocks, each access one step.

A party is run again from its beginning for each step: the answers to its accesses so far are given,
and its next access ends the run. So all of its state is what it has been answered.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import select
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

Act = Callable[[], object]
"""The steps of a party; what it returns is its result."""

CLOCK = 1
"""Key of the word with the nanoseconds that have passed while all parties waited."""

PASSED_NS = 100_000_000_000
_LOOK_NS = 3_000_000
"""Nanoseconds that each look at a clock takes."""

_FIRST_DESCRIPTOR = 1 << 20
"""No descriptor of this process has such a number."""

_FILE_WORDS = 1 << 32
_WORD, _FULL = 8, (1 << 64) - 1
_EVERY = 1 << 31


class Suspended(BaseException):
    """Ends a run at the first access that has no answer yet."""


class Access(NamedTuple):
    """A step of a party. `kind`: load, store (bits of `masks` of `values`), add, sleep while a word
    is as expected, wake so many, take (wait until it is not zero, and clear it), await (wait until
    one of the words is not zero), kill, forget.
    """

    kind: str
    keys: tuple[int, ...]
    values: tuple[Any, ...] = ()
    masks: tuple[int, ...] = ()


class Mapping:
    """The file of a model, mapped."""

    def __init__(self, machine: Machine, first: int, size: int) -> None:
        self.machine, self.first, self.size = machine, first, size

    def __enter__(self) -> Bytes:
        return Bytes(self, 0, self.size)

    def __exit__(self, *_: object) -> None:
        """Nothing to undo."""


class Bytes:
    """As a memoryview of bytes."""

    def __init__(self, mapping: Mapping, start: int, stop: int) -> None:
        self._mapping, self._start, self._stop = mapping, start, stop

    def __len__(self) -> int:
        return self._stop - self._start

    def __getitem__(self, part: slice) -> Bytes:
        start, stop, _ = part.indices(len(self))
        return Bytes(self._mapping, self._start + start, self._start + max(start, stop))

    def __setitem__(self, part: slice, data: object) -> None:
        self[part]._write(bytes(data))

    def __bytes__(self) -> bytes:
        words = range(self._start // _WORD, -(-self._stop // _WORD))
        machine, first = self._mapping.machine, self._mapping.first
        found = [
            value
            for half in _halves(words)
            for value in machine.step(Access("load", tuple(first + word for word in half)))
        ]
        data = b"".join(value.to_bytes(_WORD, "little") for value in found)
        begin = self._start % _WORD
        return data[begin : begin + len(self)]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.frombuffer(bytes(self), np.uint8)

    def cast(self, form: str) -> Words | Bytes:
        """These bytes, or their words."""
        if form == "B":
            return self
        return Words(self._mapping, self._start // _WORD, self._stop // _WORD)

    def _write(self, data: bytes) -> None:
        assert len(data) == len(self), f"{len(data)} bytes do not fit in {len(self)}"
        machine, first = self._mapping.machine, self._mapping.first
        before = self._start % _WORD
        words = range(self._start // _WORD, -(-self._stop // _WORD))
        behind = len(words) * _WORD - before - len(data)
        bits = bytes(before) + b"\xff" * len(data) + bytes(behind)
        padded = bytes(before) + data + bytes(behind)
        for half in _halves(words):
            parts = [slice((w - words.start) * _WORD, (w - words.start + 1) * _WORD) for w in half]
            machine.step(
                Access(
                    "store",
                    tuple(first + word for word in half),
                    tuple(int.from_bytes(padded[part], "little") for part in parts),
                    tuple(int.from_bytes(bits[part], "little") for part in parts),
                )
            )


class Words:
    """As a memoryview of uint64."""

    def __init__(self, mapping: Mapping, start: int, stop: int) -> None:
        self._mapping, self._start, self._stop = mapping, start, stop
        self._first = mapping.first + start

    @property
    def address(self) -> int:
        """That of the first word, for futexes."""
        return self._first * _WORD

    def __len__(self) -> int:
        return self._stop - self._start

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            start, stop, _ = at.indices(len(self))
            return Words(self._mapping, self._start + start, self._start + max(start, stop))
        return self._mapping.machine.step(Access("load", (self._key(at),)))[0]

    def __setitem__(self, at: int, value: int) -> None:
        if not 0 <= value <= _FULL:
            raise ValueError(f"{value} is no uint64")
        self._mapping.machine.step(Access("store", (self._key(at),), (int(value),), (_FULL,)))

    def __iter__(self) -> Iterator[int]:
        return (self[at] for at in range(len(self)))

    def __contains__(self, value: object) -> bool:
        return any(one == value for one in self)

    def tolist(self) -> list[int]:
        """All words, one after the other."""
        return [*self]

    def cast(self, form: str) -> Words | Bytes:
        """These words, or their bytes."""
        return self if form == "Q" else Bytes(self._mapping, self._start * 8, self._stop * 8)

    def _key(self, at: int) -> int:
        if not 0 <= at < len(self):
            raise IndexError(f"word {at} of {len(self)}")
        return self._first + at


class Poll:
    """As select.poll, of event descriptors of the model."""

    def __init__(self, machine: Machine) -> None:
        self._machine, self._registered = machine, list[int]()

    def register(self, descriptor: int, _: int) -> None:
        """Wait for this descriptor, too."""
        self._registered.append(descriptor)

    def poll(self, timeout: int | None = None) -> list[tuple[int, int]]:
        """Those that are readable."""
        kind = "await" if timeout is None else "load"
        found = self._machine.step(Access(kind, tuple(self._registered)))
        ready = zip(self._registered, found, strict=True)
        return [(descriptor, select.POLLIN) for descriptor, count in ready if count]


class Machine:
    """The memory of a model; as a context, the given modules access it in place of their own.

    Their names futex, mmap, os, ctypes, select, time, memoryview, cpu_relax and create_sealed are
    replaced, where they have them.
    """

    def __init__(self, *modules: ModuleType) -> None:
        self.initial: dict[int, int] = {CLOCK: 0}
        self.frozen = False
        self._modules = modules
        self._sizes: dict[int, int] = {}
        self._names: dict[int, str] = {CLOCK: "clock"}
        self._deaths: dict[str, int] = {}
        self._next = _FIRST_DESCRIPTOR
        self._answers: Sequence[Any] | None = None
        self._position = 0
        self.pending: Access | None = None
        self._patches = ExitStack()

    def file(self, name: str, size: int, seals: int = 0) -> int:
        """The descriptor of a new file of zero bytes, as create_sealed makes it."""
        fd = self._descriptor(name)
        self._sizes[fd] = size
        return fd

    def resize(self, fd: int, size: int) -> None:
        """Have a file of so many bytes."""
        self._sizes[fd] = size

    def event(self, name: str = "event") -> int:
        """A new event descriptor."""
        return self._descriptor(name)

    def word(self, name: str) -> Words:
        """A word in a file of its own: what threads of one process tell each other."""
        return Words(self.map(self.file(name, _WORD)), 0, 1)

    def await_death(self, *parties: str) -> list[str]:
        """Wait until one of these parties has died; those that have."""
        found = self.step(Access("await", tuple(self.death_key(one) for one in parties)))
        return [one for one, dead in zip(parties, found, strict=True) if dead]

    def read_event(self, event: int) -> int:
        """Wait for an event descriptor, and reset it; how often it was written."""
        count: int = self.step(Access("take", (event,)))
        return count

    def ring_event(self, event: int) -> None:
        """Write an event descriptor."""
        self.step(Access("add", (event,), (1,)))

    def kill(self, party: str) -> None:
        """End a party at once."""
        self.step(Access("kill", (self.death_key(party),)))

    def forget(self, *kept: object) -> None:
        """Forget all answers so far: the party's own state is `kept` and nothing else, so that
        states which differ only in how they came about are one.
        """
        self.step(Access("forget", (), kept))

    def death_key(self, party: str) -> int:
        """The key of the word that is set when a party dies."""
        if party not in self._deaths:
            self._deaths[party] = self._descriptor(f"death of {party}")
        return self._deaths[party]

    @property
    def deaths(self) -> dict[int, str]:
        """The parties by the keys of their deaths."""
        return {key: party for party, key in self._deaths.items()}

    def name(self, key: int) -> str:
        """What a key stands for."""
        if key in self._names:
            return self._names[key]
        return f"{self._names[key // _FILE_WORDS]}[{key % _FILE_WORDS}]"

    def map(self, fd: int, size: int = 0) -> Mapping:
        """Map a file."""
        return Mapping(self, fd * _FILE_WORDS, size or self._sizes[fd])

    def run(self, build: Callable[[], Act], answers: Sequence[Any]) -> object:
        """Run a party as far as the answers reach. Raises Suspended at the access behind them."""
        self._answers = None
        act = build()
        self._answers, self._position, self.pending = answers, 0, None
        try:
            return act()
        finally:
            self._answers = None

    def step(self, access: Access) -> Any:
        """The answer to an access; outside of runs it takes effect at once."""
        if self._answers is None:
            return self._at_once(access)
        position = self._position
        if position == len(self._answers):
            if self.pending is None:
                self.pending = access
            raise Suspended
        self._position = position + 1
        return self._answers[position]

    def now(self) -> int:
        """Nanoseconds of the clock; later with each look."""
        return self.step(Access("load", (CLOCK,)))[0] + (self._position + 1) * _LOOK_NS

    def _at_once(self, access: Access) -> Any:
        """Access the memory that the parties find when they begin."""
        initial = self.initial
        if access.kind == "load":
            return tuple(initial.get(key, 0) for key in access.keys)
        if access.kind != "store":
            raise AssertionError(f"{access.kind} before the parties act")
        for key, value, mask in zip(access.keys, access.values, access.masks, strict=True):
            new = initial.get(key, 0) & ~mask | value & mask
            assert not self.frozen or new == initial.get(key, 0), f"a view writes {self.name(key)}"
            initial[key] = new
        return None

    def _descriptor(self, name: str) -> int:
        self._next += 1
        self._names[self._next] = (
            f"{name}"
            if name not in self._names.values()
            else (f"{name} {self._next - _FIRST_DESCRIPTOR}")
        )
        return self._next

    def __enter__(self) -> Machine:
        names = self._stand_ins()
        for module in self._modules:
            for name, one in names.items():
                if hasattr(module, name) or name == "memoryview":
                    create = not hasattr(module, name)
                    self._patches.enter_context(patch.object(module, name, one, create=create))
        return self

    def __exit__(self, *_: object) -> None:
        self._patches.close()

    def _stand_ins(self) -> dict[str, object]:
        def view(mapping: Any) -> Any:
            whole = isinstance(mapping, Mapping)
            return Bytes(mapping, 0, mapping.size) if whole else memoryview(mapping)

        c_char = SimpleNamespace(from_buffer=lambda mapping, offset=0: (mapping, offset))
        return {
            "futex": _Futex(self),
            "mmap": _Instead(mmap, mmap=self.map),
            "os": _Instead(os, **self._calls()),
            "ctypes": _Instead(
                ctypes, c_char=c_char, addressof=lambda at: at[0].first * _WORD + at[1]
            ),
            "select": _Instead(select, poll=lambda: Poll(self)),
            "time": _Instead(time, monotonic_ns=self.now, monotonic=lambda: self.now() / 1e9),
            "memoryview": view,
            "cpu_relax": lambda: None,
            "create_sealed": self.file,
        }

    def _calls(self) -> dict[str, object]:
        return {
            "eventfd": lambda *_: self.event(),
            "eventfd_write": lambda fd, _: self.ring_event(fd),
            "write": lambda fd, _: self.ring_event(fd),
            "read": lambda fd, _: self.read_event(fd).to_bytes(_WORD, "little"),
            "fstat": lambda fd: SimpleNamespace(st_size=self._sizes[fd]),
            "ftruncate": self.resize,
            "close": lambda fd: None,
            "sched_yield": lambda: None,
        }


class _Instead:
    """A module, but for some names."""

    def __init__(self, real: ModuleType, **names: object) -> None:
        self._real = real
        self.__dict__.update(names)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class _Futex:
    """As comm/job_memory/futex.py."""

    TOTAL_STORE_ORDER = True

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def wait(self, address: int, expected: int) -> bool:
        """Sleep while the low half of the word is `expected`; True when woken."""
        low = expected & 0xFFFFFFFF
        return bool(self._machine.step(Access("sleep", (address // _WORD,), (low,))))

    wait_long = wait

    def wake(self, address: int, most: int = _EVERY) -> None:
        """Wake parties that sleep on the word."""
        self._machine.step(Access("wake", (address // _WORD,), (most,)))

    def full_fence(self) -> None:
        """Each step is seen by all at once."""

    order_fence = full_fence


def _halves(words: range) -> list[range]:
    middle = (len(words) + 1) // 2
    return [half for half in (words[:middle], words[middle:]) if half]
