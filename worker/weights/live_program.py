"""What a program whose weights are live has more than others: seats for its sessions, and a turn at the weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from numpy.typing import NDArray

from ...comm.collectives.base import Collectives
from ...comm.rank import Rank
from ..build import Build
from ..executors.base import Executor
from ..executors.live import LiveSegment
from ..external import NO_MEMORY
from ..plan import Segment
from .agreement import Agreement
from .live_plan import with_live_weights
from .live_weights import LiveWeights
from .seats import Seats

Array = NDArray[Any]


class LiveProgram:
    """One program over live weights, which may outlast it."""

    def __init__(self, build: Build, collectives: Collectives, rank: Rank, executor: Executor,
                 weights: LiveWeights) -> None:
        """`executor` prepares LiveSegments. Raises what LiveWeights.open raises."""
        if not weights.opened:
            weights.open(build.plan, build.memory, rank)
        self._weights, self._executor = weights, executor
        self._plan = with_live_weights(build.plan, weights.store.index)
        self._seats = Seats(self._plan, weights.store, self._prepare)
        self._agreement = Agreement(collectives, rank) if rank.world_size > 1 else None

    @contextmanager
    def opening(self, memory: Mapping[str, memoryview]) -> Iterator[Build]:
        """The build with sessions for the weights as they are now; `memory` is that of the build it is made from."""
        with self._weights.seat(self._seats) as edition:
            memory = {**memory, **self._seats.memory(self._plan.constants, edition)}
            yield Build(self._plan, memory, lambda segment: self._seats.load(segment, edition), False)

    def fill(self, constants: dict[str, Array]) -> None:
        """Keep the weights among `constants` up to date."""
        self._seats.fill(constants)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Meanwhile the program computes with one edition of the weights."""
        with self._weights.hold(self._agreement) as edition:
            self._seats.use(edition)
            yield

    def _prepare(self, segment: Segment, memory: Mapping[str, memoryview]) -> LiveSegment:
        return cast(LiveSegment, self._executor.prepare(segment, self._plan.folder, memory or NO_MEMORY))
