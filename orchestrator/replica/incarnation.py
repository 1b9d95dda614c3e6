"""Incarnation: one life of a replica's ranks, from the start of their processes to their end.

A restart makes a new incarnation. Each has a ring of its own, so that no answer of an earlier one
can be mistaken for an answer of this one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import msgspec

from ...comm.errors import RankDied, RankFailed, RankmeshError, error_named
from ...comm.job_memory.progress import ProgressSnapshot
from ...comm.processes import rank_errors
from ...comm.processes.process_ender import ASKED, AT_ONCE, Schedule
from ...comm.processes.rank_events import (
    CallbackFailed,
    ProtocolViolated,
    RankExited,
    RankLost,
    RankRaised,
    RankReady,
    RankReplied,
)
from ...comm.processes.supervised_process import SupervisedProcess
from ...comm.serving.orders import InvalidRankData, ModelReport, ServeJob, Stop, encode_order
from ..event_loop.loop import EventLoopThread
from ..scheduling.replica_weights import ReplicaWeights
from .control import ControlRound, OpenRounds, read_report
from .supervised_ranks import SupervisedEvent, SupervisedRanks

_LOG = logging.getLogger("rankmesh.orchestrator")


class IncarnationListener(Protocol):
    """The replica of an incarnation; called in the loop's thread."""

    def ready(self, incarnation: Incarnation) -> None:
        """All ranks take orders."""

    def answered(self, incarnation: Incarnation) -> None:
        """Some order has been answered, or a rank needs room."""

    def failed(
        self, incarnation: Incarnation, error: RankmeshError, rank: int, guilty: bool
    ) -> None:
        """The incarnation is over because of `rank`; called once.

        `guilty` tells whether the order that the rank ran may be the cause.
        """

    def ended(self, incarnation: Incarnation) -> None:
        """No process is left; called before, too, if a killed process does not end."""


class Incarnation:
    """The processes of the ranks under supervision, and the ring of their orders.

    All methods are for the loop's thread. An exception in a callback about the ranks, for instance
    for data that no rank writes in order, ends the incarnation and nothing else.
    """

    def __init__(
        self,
        number: int,
        launch: Callable[[Callable[[SupervisedEvent], None]], SupervisedRanks],
        loop: EventLoopThread,
        listener: IncarnationListener,
    ) -> None:
        """`launch` gives the ranks, which tell the function that it gets of their events.

        Nothing is started yet. Raises what `launch` raises.
        """
        self.number = number
        self.over = False
        self.reports: dict[int, ModelReport] = {}
        self._loop = loop
        self._listener = listener
        self._rounds = OpenRounds()
        self.ranks = launch(self._handle)
        self.specs = self.ranks.specs
        self.ring = self.ranks.memory.ring
        self.processes = self.ranks.processes
        """The processes that were started, in rank order."""

        self.call_later = self.ranks.call_later
        """See SupervisedRanks.call_later: what a call raises ends the incarnation."""

        self.request_stacks = self.ranks.request_stacks

    def start(self, job: ServeJob, weights: ReplicaWeights, timeout: float) -> None:
        """Start the processes; collectives have `timeout` seconds.

        `job` is the same for all ranks: what differs from rank to rank is filled in.
        """
        self._loop.watch(self.ranks.memory.bell, self.ranks.guarded(self._take_answers))
        for spec in self.specs:
            rank = spec.rank.rank
            try:
                own_job = msgspec.structs.replace(job, stage=weights.at_start(rank))
                self.ranks.start(rank, own_job, weights.regions(rank), timeout)
            except Exception as error:  # of any class: the listener has to hear of it
                text = f"{spec.rank} cannot be started: {error}"
                self.fail(RankmeshError(text), rank, guilty=False)
                return

    @property
    def gone(self) -> bool:
        """Whether the ranks were ended, and no process that could write is left."""
        return self.ranks.gone

    @property
    def host_lost(self) -> bool:
        """Whether a host of the ranks was lost."""
        return self.ranks.host_lost

    @property
    def culprit(self) -> int | None:
        """The rank for which the collectives of the others were ended; None without one."""
        return self.ranks.culprit

    @property
    def fetching(self) -> bool:
        """Whether files of the ranks are still on their way to their host."""
        return self.ranks.fetching

    @property
    def awaited(self) -> list[int]:
        """The ranks that the others wait for while they start."""
        return self.ranks.awaited

    @property
    def ready(self) -> bool:
        """Whether all ranks take orders."""
        return len(self.reports) == len(self.specs) and not self.over

    def progress(self, rank: int) -> ProgressSnapshot:
        """The progress of a rank now."""
        return self.ranks.progress(rank)

    def carried(self, number: int) -> object:
        """A figure that changes while an order, or its answer, is on its way over a network."""
        return self.ranks.carried(number)

    def ask(self, control_round: ControlRound) -> None:
        """Send a control request to each rank; the round gets their replies, or `lose`."""
        if not self.ready:
            control_round.lose()
            return
        number = self._rounds.open(control_round)
        for rank, request in enumerate(control_round.requests):
            self.ranks.ask(rank, number, request)

    def look(self) -> None:
        """Look for answers for which the bell may not have been rung."""
        if not self.over:
            self.ranks.guarded(partial(self._listener.answered, self))()

    def fail(self, error: RankmeshError, rank: int, guilty: bool = True) -> None:
        """End the incarnation because of `rank`: kill all processes, and tell the listener."""
        if not self.over:
            self._end(AT_ONCE)
            self._listener.failed(self, error, rank, guilty)
            self._rounds.lose()  # afterwards, or the same ranks would be asked again

    def fail_rank(self, error: RankFailed, rank: int, guilty: bool = True) -> None:
        """As `fail`, with the last lines of the rank in the error."""
        self.fail(rank_errors.with_last_lines(error, self.processes[rank]), rank, guilty)

    def stop(self) -> None:
        """End in order: idle ranks get an order to stop; all are killed within a second."""
        if not self.over:
            if self.ready:
                self.ring.give(self.ring.given, encode_order(Stop()))
            self._end(ASKED if self.ready else AT_ONCE)
            self._rounds.lose()

    def _handle(self, event: SupervisedEvent) -> None:
        if isinstance(event, CallbackFailed):
            self._note_fault(event.error)
        elif not self.over:
            self._act_on(event)

    def _act_on(self, event: SupervisedEvent) -> None:
        match event:
            case RankReady(process, report):
                self._note_report(process.rank.rank, report)
            case RankReplied(process, number, reply):
                self._rounds.take(process.rank.rank, number, reply)
            case RankRaised(process, failed):
                error = error_named(failed.error, failed.text)
                self.fail(error, process.rank.rank, guilty=False)
            case ProtocolViolated(process, text):
                self.fail_rank(rank_errors.failed(process, text), process.rank.rank)
            case RankLost(process, text):
                error = RankDied(f"{rank_errors.describe_rank(process)} {text}")
                self.fail(error, process.rank.rank, guilty=False)
            case RankExited(process):
                self._note_exit(process)

    def _note_report(self, rank: int, report: bytes) -> None:
        self.reports[rank] = read_report(rank, report)
        if self.ready:
            self._listener.ready(self)

    def _note_exit(self, process: SupervisedProcess) -> None:
        """Handle the end of a process; what it has answered before still counts."""
        self._listener.answered(self)
        if not self.over:
            rank = process.rank.rank
            self.fail_rank(rank_errors.died(process, self.progress(rank)), rank)

    def _note_fault(self, fault: Exception) -> None:
        """End the incarnation for an exception in a callback: of a rank's fault, or of ours."""
        if self.over and isinstance(fault, InvalidRankData):
            return  # its rank is being ended already
        if self.over or not self.processes:
            raise fault
        if isinstance(fault, InvalidRankData):
            process = self.processes[fault.rank]
            error = rank_errors.failed(process, str(fault))
        else:
            process = self.processes[0]
            text = f"could not be watched any more: {type(fault).__name__}: {fault}"
            error = rank_errors.failed(process, text)
            _LOG.error("a fault while the ranks were watched", exc_info=fault, extra={"rank": 0})
        self.fail_rank(error, process.rank.rank)

    def _take_answers(self) -> None:
        self.ranks.memory.silence_bell()
        self._listener.answered(self)

    def _end(self, schedule: Schedule) -> None:
        self.over = True
        self._loop.forget(self.ranks.memory.bell)
        self.ranks.end(schedule, self._finish)

    def _finish(self, stuck: Sequence[SupervisedProcess]) -> None:
        for process in stuck:
            _LOG.error("%s", rank_errors.stuck(process), extra={"rank": process.rank.rank})
        self._listener.ended(self)
