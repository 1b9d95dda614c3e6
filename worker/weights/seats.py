"""The sessions of a program whose weights change: each segment's seat, and who sits there for an edition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..executors.live import LiveSegment
from ..plan import Plan, Segment
from .control import Edition
from .live_plan import location_of
from .store import Store
from .stored import Stored, on_host

Array = NDArray[Any]
Prepare = Callable[[Segment, Mapping[str, memoryview]], LiveSegment]
_KEPT = 2
"""Sessions that a seat keeps, of those that weights were folded into: the current ones and those before."""


class Seat:
    """A segment in a program; what runs there changes between requests."""

    def __init__(self, segment: Segment, weights: Sequence[str]) -> None:
        self.segment, self.weights = segment, weights
        self.folded: tuple[str, ...] = ()
        self.sessions: dict[tuple[int, ...], LiveSegment] = {}
        self._now: LiveSegment | None = None

    def run(self, inputs: Sequence[Stored], outputs: Sequence[Array | None]) -> Sequence[Array]:
        """See Runnable.run."""
        assert self._now is not None
        return self._now.run(inputs, outputs)

    def take(self, session: LiveSegment, arrays: Mapping[str, Stored]) -> None:
        """Run this session, on these weights, from the next request on."""
        session.use(arrays)
        self._now = session


class Seats:
    """All segments of one program."""

    def __init__(self, plan: Plan, store: Store, prepare: Prepare) -> None:
        self._store, self._prepare = store, prepare
        self._constants = [name for name in plan.constants if name in store.index]
        self._seats: list[Seat] = []
        self._edition: Edition | None = None
        self._target: dict[str, Array] = {}

    def load(self, segment: Segment, edition: Edition) -> Seat:
        """The seat of one segment, with a session for `edition`."""
        records = segment.model.graph.initializer
        seat = Seat(segment, [record.name for record in records if record.name in self._store.index])
        session = self._session(seat, edition)
        seat.folded = tuple(sorted(set(seat.weights) - set(session.direct)))
        seat.sessions[self._key(seat, edition)] = session
        self._seats.append(seat)
        return seat

    def memory(self, names: Iterable[str], edition: Edition) -> dict[str, memoryview]:
        """Those of `names` that are live weights, by the location that the plan gives them."""
        arrays = self._store.arrays(edition)
        return {location_of(name): on_host(arrays[name]).reshape(-1).view(np.uint8).data
                for name in names if name in arrays}

    def fill(self, constants: dict[str, Array]) -> None:
        """Put weights that no segment takes into `constants`, now and whenever they change."""
        self._target = constants

    def make(self, edition: Edition) -> None:
        """Make the sessions that `edition` needs and no other had; the program may run meanwhile."""
        for seat in self._seats:
            key = self._key(seat, edition)
            found = seat.sessions.pop(key, None) or self._session(seat, edition)
            kept = dict(list(seat.sessions.items())[1 - _KEPT:])
            seat.sessions = {**kept, key: found}  # in one step: the program's thread looks into it

    def use(self, edition: Edition) -> None:
        """Compute with `edition` from now on; by the thread that runs the program."""
        if edition is self._edition:
            return
        if any(self._key(seat, edition) not in seat.sessions for seat in self._seats):
            self.make(edition)
        arrays = self._store.arrays(edition)
        for seat in self._seats:
            seat.take(seat.sessions[self._key(seat, edition)], arrays)
        self._target.update({name: on_host(arrays[name]) for name in self._constants})
        self._edition = edition

    def _key(self, seat: Seat, edition: Edition) -> tuple[int, ...]:
        """What tells apart the contents of all weights that are part of a seat's session."""
        return tuple(edition.marks[self._store.index[name]] for name in seat.folded)

    def _session(self, seat: Seat, edition: Edition) -> LiveSegment:
        return self._prepare(seat.segment, self.memory(seat.weights, edition))
