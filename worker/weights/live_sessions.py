"""Sessions of a program with live weights: per segment those that are current, and those before."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...comm.arrays import Array
from ..executors.live import LiveSegment
from ..partition.plan import Plan, Segment
from .control import WeightSnapshot
from .plan_weights import location_of
from .store import Stored, WeightStore, on_host

SessionKey = tuple[int, ...]
"""The marks of the weights that are folded into a session."""

Prepare = Callable[[Segment, Mapping[str, memoryview]], LiveSegment]
_KEPT = 2
"""Sessions kept per segment that weights were folded into: the current one and the one before."""


class SegmentSessions:
    """One segment of a program; which of its sessions runs may change between requests."""

    def __init__(
        self, segment: Segment, weights: Sequence[str], folded: Sequence[str], first: LiveSegment
    ) -> None:
        """`weights` are the live ones that the segment takes; `folded` those computed into it."""
        self.segment = segment
        self.weights = weights
        self.folded = folded
        self.sessions: dict[SessionKey, LiveSegment] = {}
        self._now = first

    def run(self, inputs: Sequence[Stored], outputs: Sequence[Array | None]) -> Sequence[Array]:
        """See Runnable.run."""
        return self._now.run(inputs, outputs)

    def compute(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """See DeviceRunnable.compute."""
        return self._now.compute(inputs)

    def revision(self) -> Hashable:
        """See DeviceRunnable.revision."""
        return self._now, self._now.revision()

    def use(self, key: SessionKey, arrays: Mapping[str, Stored]) -> None:
        """Run the session of this key, on these weights, from the next request on."""
        session = self.sessions[key]
        session.use(arrays)
        self._now = session


class LiveSessions:
    """All segments of one program."""

    def __init__(self, plan: Plan, store: WeightStore, prepare: Prepare) -> None:
        self._store = store
        self._prepare = prepare
        self._constants = [name for name in plan.constants if name in store.index]
        self._segments: list[SegmentSessions] = []
        self._snapshot: WeightSnapshot | None = None
        self._target: dict[str, Array] = {}

    def load(self, segment: Segment, snapshot: WeightSnapshot) -> SegmentSessions:
        """Add a segment, with a session for `snapshot`."""
        records = segment.model.graph.initializer
        weights = [record.name for record in records if record.name in self._store.index]
        session = self._prepare(segment, self.memory(weights, snapshot))
        folded = sorted(set(weights) - set(session.direct))
        added = SegmentSessions(segment, weights, folded, session)
        added.sessions[self._key(added, snapshot)] = session
        self._segments.append(added)
        return added

    def memory(self, names: Iterable[str], snapshot: WeightSnapshot) -> dict[str, memoryview]:
        """The bytes of those of `names` that are live weights, by their location in the plan."""
        arrays = self._store.arrays(snapshot)
        return {
            location_of(name): on_host(arrays[name]).reshape(-1).view(np.uint8).data
            for name in names
            if name in arrays
        }

    def keep_current(self, constants: dict[str, Array]) -> None:
        """Put weights that no segment takes into `constants`, now and whenever they change."""
        self._target = constants

    def make(self, snapshot: WeightSnapshot) -> None:
        """Make the sessions that `snapshot` needs and lacks; the program may run meanwhile."""
        for segment in self._segments:
            key = self._key(segment, snapshot)
            found = segment.sessions.pop(key, None) or self._prepare(
                segment.segment, self.memory(segment.weights, snapshot)
            )
            kept = dict(list(segment.sessions.items())[1 - _KEPT :])
            segment.sessions = {**kept, key: found}  # at once: the program's thread looks into it

    def use(self, snapshot: WeightSnapshot) -> None:
        """Compute with `snapshot` from now on; for the thread that runs the program."""
        if snapshot is self._snapshot:
            return
        if any(self._key(segment, snapshot) not in segment.sessions for segment in self._segments):
            self.make(snapshot)
        arrays = self._store.arrays(snapshot)
        for segment in self._segments:
            segment.use(self._key(segment, snapshot), arrays)
        self._target.update({name: on_host(arrays[name]) for name in self._constants})
        self._snapshot = snapshot

    def _key(self, segment: SegmentSessions, snapshot: WeightSnapshot) -> SessionKey:
        return tuple(snapshot.marks[self._store.index[name]] for name in segment.folded)
