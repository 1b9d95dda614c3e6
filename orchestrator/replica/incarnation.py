"""Incarnation: one life of a replica's ranks, from the start of their processes to their end.

A restart makes a new incarnation. Each has a ring of its own, so that no answer of an earlier one
can be mistaken for an answer of this one.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from functools import partial
from typing import Protocol

import msgspec

from ...comm.errors import RankFailed, RankmeshError, error_named
from ...comm.host.resources import gpu_count
from ...comm.host.secrecy import CLOSED
from ...comm.job.placement import RankSpec
from ...comm.job_memory.exit_flag import ExitMonitor
from ...comm.job_memory.progress import Progress, ProgressSnapshot
from ...comm.processes import rank_errors
from ...comm.processes.event_loop import Timer
from ...comm.processes.output import Log
from ...comm.processes.process_ender import ASKED, AT_ONCE, Schedule
from ...comm.processes.rank_events import (
    CallbackFailed,
    ChannelLost,
    ProtocolViolated,
    RankEvent,
    RankExited,
    RankRaised,
    RankReady,
    RankReplied,
)
from ...comm.processes.rank_process import Command, RankProcess, python
from ...comm.processes.rank_supervisor import RankSupervisor
from ...comm.processes.uninstrumented import uninstrumented
from ...comm.serving.caller_slots import CallerSlots
from ...comm.serving.orders import InvalidRankData, ModelReport, ServeJob, Stop, encode_order
from ...comm.transport.messages import ControlRequest, Start
from ..event_loop.loop import EventLoopThread
from ..scheduling.replica_weights import ReplicaWeights
from .control import ControlRound, OpenRounds, read_report
from .incarnation_memory import IncarnationMemory

_LOG = logging.getLogger("rankmesh.orchestrator")
_EXIT_GRACE = 5.0
"""Seconds within which a process ends that has closed its channel."""


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
        ranks: Sequence[RankSpec],
        depth: int,
        seats: CallerSlots,
        loop: EventLoopThread,
        listener: IncarnationListener,
        log: Log,
    ) -> None:
        """Lay out memory for `depth` orders under way; OSError where there is none.

        Nothing is started yet.
        """
        self.number = number
        self.ranks = ranks
        self.over = False
        self.reports: dict[int, ModelReport] = {}
        self._loop = loop
        self._listener = listener
        self._rounds = OpenRounds()
        self._timers: list[Timer] = []
        self._exit_monitor: ExitMonitor | None = None
        size = ranks[0].rank.world_size
        self.memory = IncarnationMemory(size, depth, seats)
        self.arena = self.memory.arena
        self.ring = self.memory.ring
        self.supervisor = RankSupervisor(
            self.arena, size, loop, loop.guardian, 0.0, self._handle, log
        )  # without a deadline for exchanges: that of the whole start counts
        """Supervises the processes; an exception in its calls ends the incarnation."""

        self.processes: Sequence[RankProcess] = self.supervisor.processes
        """The processes that were started, in rank order."""

    def start(self, job: ServeJob, weights: ReplicaWeights, timeout: float) -> None:
        """Start the processes; collectives have `timeout` seconds.

        `job` is the same for all ranks: what differs from rank to rank is filled in here.
        """
        self._loop.watch(self.memory.bell, self.supervisor.guarded(self._take_answers))
        for spec in self.ranks:
            rank = spec.rank.rank
            try:
                own_job = msgspec.structs.replace(job, stage=weights.at_start(rank))
                self.supervisor.start(spec.rank, self._command(spec, own_job, timeout))
            except Exception as error:  # of any class: the listener has to hear of it
                text = f"{spec.rank} cannot be started: {error}"
                self.fail(RankmeshError(text), rank, guilty=False)
                return

    @property
    def ready(self) -> bool:
        """Whether all ranks take orders."""
        return len(self.reports) == len(self.ranks) and not self.over

    def progress(self, rank: int) -> ProgressSnapshot:
        """The progress of a rank now."""
        return Progress(self.arena, rank).read()

    def ask(self, control_round: ControlRound) -> None:
        """Send a control request to each rank; the round gets their replies, or `lose`."""
        if not self.ready:
            control_round.lose()
            return
        number = self._rounds.open(control_round)
        for process, request in zip(self.processes, control_round.requests, strict=True):
            self.supervisor.send(process, ControlRequest(number, request))

    def look(self) -> None:
        """Look for answers for which the bell may not have been rung."""
        if not self.over:
            self.supervisor.guarded(partial(self._listener.answered, self))()

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

    def _command(self, spec: RankSpec, job: ServeJob, timeout: float) -> Command:
        job = msgspec.structs.replace(
            job,
            threads=spec.threads,
            ring=self.memory.ring_fd,
            bell=self.memory.bell,
            cores=list(spec.cores),
            parent=os.getpid(),
        )
        return Command(
            python("rankmesh.worker.serving.rank_loop", f"rank={spec.rank.rank}"),
            prepared=True,
            start=Start(spec.rank, msgspec.msgpack.encode(job), timeout),
            place=f"device {spec.rank.device}" if job.device != "cpu" and gpu_count() else "",
            descriptors=job.inherited,
            sent=job.sent,
            environment={**CLOSED, **uninstrumented(os.environ)},
        )

    def _handle(self, event: RankEvent) -> None:
        if isinstance(event, CallbackFailed):
            self._note_fault(event.error)
        elif not self.over:
            self._act_on(event)

    def _act_on(self, event: RankEvent) -> None:
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
            case ChannelLost(process):  # mostly as its process ends, which tells more
                check = partial(self._check_exit, process, "closed its channel, and lives on")
                self._timers.append(self.supervisor.call_later(_EXIT_GRACE, check))
            case RankExited(process):
                self._note_exit(process)

    def _note_report(self, rank: int, report: bytes) -> None:
        self.reports[rank] = read_report(rank, report)
        if self.ready:
            self._exit_monitor = ExitMonitor(self.arena, self._note_exit_flag)
            self._exit_monitor.start()
            self._listener.ready(self)

    def _note_exit_flag(self, rank: int) -> None:
        """Pass on the end of a rank from the exit monitor's thread."""
        check = partial(self._check_exit_flag, self.processes[rank])
        self._loop.call_soon(self.supervisor.guarded(check))

    def _check_exit_flag(self, process: RankProcess) -> None:
        """Handle an exit flag: the kernel sets it when the rank ends, but a rank could set it."""
        self._check_exit(process, "wrote in shared memory that it has ended, and lives on")
        if not self.over:
            self.supervisor.note_exit(process)

    def _check_exit(self, process: RankProcess, text: str) -> None:
        if not self.over and not process.ending:
            raise InvalidRankData(process.rank.rank, text)

    def _note_exit(self, process: RankProcess) -> None:
        """Handle the end of a process; what it has answered before still counts."""
        process.kill_descendants()
        self._listener.answered(self)
        if not self.over:
            process.read_outputs()
            rank = process.rank.rank
            self.fail_rank(rank_errors.died(process, self.progress(rank)), rank)

    def _note_fault(self, fault: Exception) -> None:
        """End the incarnation for an exception in a callback: of a rank's fault, or of ours."""
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
        self.memory.silence_bell()
        self._listener.answered(self)

    def _end(self, schedule: Schedule) -> None:
        self.over = True
        self._loop.forget(self.memory.bell)
        for timer in self._timers:
            timer.cancel()
        if self._exit_monitor is not None:
            self._exit_monitor.stop()
            self._exit_monitor = None  # it refers to this object, whose memory is to be freed
        self.supervisor.end(schedule, self._finish)

    def _finish(self, stuck: Sequence[RankProcess]) -> None:
        for process in stuck:
            _LOG.error("%s", rank_errors.stuck(process), extra={"rank": process.rank.rank})
        if not stuck:
            self.memory.close()
        self._listener.ended(self)
