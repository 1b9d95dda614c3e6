"""Supervised ranks: start, watch and end the processes of an incarnation, on any host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from ...comm.job.placement import RankSpec
from ...comm.job_memory.progress import ProgressSnapshot
from ...comm.processes.event_loop import Action, Timer
from ...comm.processes.output import Log
from ...comm.processes.process_ender import Schedule
from ...comm.processes.rank_events import RankEvent
from ...comm.processes.supervised_process import SupervisedProcess
from ...comm.request_memory.owned_arena import Region
from ...comm.serving.orders import ServeJob
from .control import PlacedRequest
from .order_memory import OrderMemory
from .replica_spec import ReplicaSpec

SupervisedEvent: TypeAlias = RankEvent[SupervisedProcess]


class SupervisedRanks(Protocol):
    """The processes of one incarnation, and the memory in which it follows them.

    For the loop's thread. The incarnation is told of events (`SupervisedEvent`).
    """

    @property
    def specs(self) -> Sequence[RankSpec]:
        """The ranks, with their places, in rank order."""

    @property
    def memory(self) -> OrderMemory:
        """The ring of their orders."""

    @property
    def processes(self) -> Sequence[SupervisedProcess]:
        """The processes that were started, in rank order."""

    @property
    def awaited(self) -> list[int]:
        """The ranks that an open exchange waits for, or else those that have not reported."""

    @property
    def fetching(self) -> bool:
        """Whether files of the ranks are still on their way to their host."""

    @property
    def culprit(self) -> int | None:
        """The rank for which the collectives of the others were ended; None without one."""

    @property
    def host_lost(self) -> bool:
        """Whether a host of the ranks was lost, for which they are not to blame."""

    @property
    def gone(self) -> bool:
        """Whether the ranks were ended, and no process that could write is left."""

    def start(self, rank: int, job: ServeJob, weights: Sequence[Region], timeout: float) -> None:
        """Start the process of a rank; its collectives have `timeout` seconds.

        `weights` is the memory of the job's staged weights, in their order.
        """

    def progress(self, rank: int) -> ProgressSnapshot:
        """The progress of a rank, as far as it is known here."""

    def guarded(self, action: Action) -> Action:
        """Wrap `action` for the loop: what it raises comes as CallbackFailed."""

    def call_later(self, seconds: float, action: Action) -> Timer:
        """Call `action`, guarded, after `seconds`."""

    def carried(self, number: int) -> object:
        """A figure that changes while an order, or its answer, is on its way over a network."""

    def ask(self, rank: int, number: int, request: PlacedRequest) -> None:
        """Send a rank the control request `number`; its reply comes as an event."""

    def request_stacks(self, rank: int, then: Action) -> Timer:
        """Have a rank write the stacks of its threads, and call `then` afterwards."""

    def end(
        self, schedule: Schedule, finished: Callable[[Sequence[SupervisedProcess]], None]
    ) -> None:
        """End all processes, then free the memory and call `finished`.

        It is also called, earlier, with killed processes that do not end.
        """


class RankLauncher(Protocol):
    """Where the ranks of replicas are started. For the loop's thread."""

    def launch(
        self,
        spec: ReplicaSpec,
        depth: int,
        notify: Callable[[SupervisedEvent], None],
        log: Log,
    ) -> SupervisedRanks:
        """Memory for `depth` orders, and a place for each rank; no process is started yet.

        Raises OSError where there is no memory, NoPlace where no host has room for the ranks now.
        """

    elsewhere: bool
    """Whether the ranks run on other hosts."""

    def open(self) -> None:
        """Be ready to launch ranks; waits. Raises UsageError where that fails."""

    def close(self) -> None:
        """Release what `open` has taken; the ranks should have ended."""

    def await_place(self, action: Action) -> None:
        """Call `action` once, when there may be room again."""


class NoPlace(Exception):
    """No host has room for the ranks of a replica now; the text says what there is.

    `coming`: there will be a place, or another NoPlace will say why not.
    """

    def __init__(self, text: str, coming: bool = False) -> None:
        super().__init__(text)
        self.coming = coming
