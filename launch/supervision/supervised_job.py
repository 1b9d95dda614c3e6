"""Supervised job: the ranks of one host, for `rankmesh run` and `launch`, from start to end.

Where a job has ranks on other hosts too, its ranks exchange without the supervisor, and tell it
what fails there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import NoReturn, Protocol

from ...comm.errors import CollectiveTimeout, RankFailed, RankmeshError
from ...comm.job.rank import Rank
from ...comm.job_memory.arena import Arena, Cause
from ...comm.job_memory.progress import Progress, ProgressSnapshot, Stage
from ...comm.limits import require_ranks
from ...comm.processes import rank_errors
from ...comm.processes.event_loop import EventLoop
from ...comm.processes.guardian import Guardian
from ...comm.processes.output import Log
from ...comm.processes.process_ender import ASKED
from ...comm.processes.rank_events import (
    CallbackFailed,
    ProtocolViolated,
    RankEvent,
    RankExited,
    RankRaised,
    RankReady,
    RankUnresponsive,
    RoundBroken,
    RoundLate,
)
from ...comm.processes.rank_process import Command, RankProcess
from ...comm.processes.rank_supervisor import RankSupervisor
from ...comm.rendezvous.relay import Relay
from ...comm.transport.messages import Failed
from .signals import Interrupted, SignalPipe

_LOOK = 1.0
"""Seconds between looks at ranks that a signal may have stopped."""

_LOOKS = 5
"""Looks in a row that find a rank stopped: other hosts take it for gone after four seconds."""


class Ticker(Protocol):
    """An object to be called now and then while a job runs."""

    def next_timeout(self) -> float | None:
        """Seconds until the next call at the latest; None: none is needed."""

    def tick(self) -> None:
        """Take the call, after every wait."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """The first failure of a job, and the process that it is of, where that is of this host."""

    error: RankmeshError
    process: RankProcess | None
    text: str
    status: int | None


class SupervisedJob:
    """Runs one command per rank; a context manager that leaves no process behind.

    A rank with a job of ours is done when it has reported. A user's script is done when its process
    has exited with status 0; its report is empty.
    """

    def __init__(
        self, ranks: Sequence[Rank], commands: Sequence[Command], timeout: float, log: Log
    ) -> None:
        """`timeout` is how many seconds ranks wait for each other in exchanges (0: no deadline)."""
        require_ranks(len(ranks))
        self._ranks = ranks
        self._commands = commands
        self._timeout = timeout
        self._log = log
        self._arena = Arena.create(ranks[0].world_size)
        self._loop = EventLoop()
        self._guardian = Guardian()
        self._supervisor = RankSupervisor(
            self._arena,
            Relay(len(ranks), timeout),
            self._loop,
            self._guardian,
            self._handle,
            log,
        )
        self._reports: dict[int, bytes] = {}
        self._failure: _Failure | None = None
        self._settled = False
        self._resources = ExitStack()
        self._signals = SignalPipe()
        self.followers: dict[int, str] = {}
        """The errors with which ranks have ended after the first failure, by rank."""

    @property
    def status(self) -> int | None:
        """The exit status of the process that failed first; negative for a signal."""
        return self._failure.status if self._failure is not None else None

    @property
    def errors(self) -> dict[int, str]:
        """The errors of the ranks by rank: the first failure, and those that followed it."""
        if self._failure is None or self._failure.process is None:
            return self.followers
        return {**self.followers, self._failure.process.rank.rank: self._failure.text}

    def stages(self) -> list[Stage]:
        """The stages of the ranks, in rank order."""
        return [Progress(self._arena, rank.rank).stage for rank in self._ranks]

    def __enter__(self) -> SupervisedJob:
        self._resources.callback(self._arena.close)
        self._resources.callback(self._loop.close)
        try:
            self._resources.enter_context(self._signals)
            self._resources.enter_context(self._guardian)
            self._resources.callback(self._end)
            self._loop.watch(self._signals, self._interrupt)
            for rank, command in zip(self._ranks, self._commands, strict=True):
                self._supervisor.start(rank, command)
        except BaseException:
            self._resources.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()

    def run(self, ticker: Ticker | None = None) -> list[bytes]:
        """Wait for every rank; the reports in rank order.

        Raises the error of the first rank that fails, or Interrupted.
        """
        if len(self._ranks) < self._ranks[0].world_size:
            self._look_for_stopped({})
        while self._failure is None and len(self._reports) < len(self._ranks):
            self._loop.turn(ticker.next_timeout() if ticker is not None else None)
            if ticker is not None:
                ticker.tick()
        if self._failure is not None:
            raise self._failure.error
        return [self._reports[rank.rank] for rank in self._ranks]

    def _interrupt(self) -> NoReturn:
        raise Interrupted(self._signals.take())

    def _handle(self, event: RankEvent[RankProcess]) -> None:
        if isinstance(event, CallbackFailed):
            raise event.error
        if not self._settled:
            self._act_on(event)
        elif isinstance(event, RankRaised):
            self.followers[event.process.rank.rank] = event.error.text

    def _act_on(self, event: RankEvent[RankProcess]) -> None:
        match event:
            case RankReady(process, report):
                self._note_report(process, report)
            case RankExited(process):
                self._note_exit(process)
            case RankRaised(process, failed):
                self._note_error(process, failed)
            case ProtocolViolated(process, text):
                self._fail(process, Cause.FAILED, rank_errors.failed(process, text))
            case RankUnresponsive(process):
                error = rank_errors.unresponsive(process, self._progress(process), self._timeout)
                self._fail(process, Cause.LATE, error)
            case RoundLate(missing):
                progress = {process.rank.rank: self._progress(process) for process in missing}
                error = rank_errors.never_arrived(progress, self._timeout)
                self._fail(missing[0], Cause.LATE, error)
            case RoundBroken(process):
                text = f"{process.epitaph()} while others wait for it"
                self._fail(process, Cause.DIED, rank_errors.failed(process, text))

    def _note_report(self, process: RankProcess, report: bytes) -> None:
        self._reports[process.rank.rank] = report
        process.leaves_descendants = True

    def _note_exit(self, process: RankProcess) -> None:
        if process.status() == 0:  # else all process groups are ended soon
            self._guardian.forget(process.pid)
            if process.command.start is None:
                self._note_report(process, b"")
        progress = Progress(self._arena, process.rank.rank)
        last = progress.read()
        progress.stage = Stage.ENDED
        if process.rank.rank not in self._reports:
            self._note_death(process, last)

    def _note_death(self, process: RankProcess, progress: ProgressSnapshot) -> None:
        """A process has failed by itself, or because of the rank that ended its collectives."""
        record = self._arena.aborted()
        if record is not None and record.rank not in (None, process.rank.rank):
            culprit = self._process_of(record.rank) or process
            self._fail(culprit, record.cause, RankFailed(record.text))
        else:
            self._fail(process, Cause.DIED, rank_errors.exited_early(process, progress))

    def _note_error(self, process: RankProcess, failed: Failed) -> None:
        error = rank_errors.sent_error(process, failed)
        self._settled = True
        if failed.rank is not None and self._process_of(failed.rank) is None:
            self._failure = _Failure(error, None, str(error), None)  # of another host
        elif isinstance(error, CollectiveTimeout):
            record = self._arena.aborted()
            late = self._process_of(record.rank if record is not None else None) or process
            then = partial(self._fail, late, Cause.FAILED, error)
            self._supervisor.request_stacks(late, then)
        else:
            self._fail(process, Cause.FAILED, error)

    def _process_of(self, rank: int | None) -> RankProcess | None:
        """The process of `rank`; None where this host has none."""
        processes = self._supervisor.processes
        return next((process for process in processes if process.rank.rank == rank), None)

    def _progress(self, process: RankProcess) -> ProgressSnapshot:
        return Progress(self._arena, process.rank.rank).read()

    def _fail(self, process: RankProcess, cause: Cause, error: RankmeshError) -> None:
        """Note the first failure for `run`, and end the collectives of the other ranks."""
        self._settled = True
        text = str(error)
        self._arena.abort(process.rank.rank, cause, text)
        status = None if process.running else process.status()
        process.read_outputs()
        if isinstance(error, RankFailed) and len(self._ranks) > 1:  # a lone rank's were just shown
            error = rank_errors.with_last_lines(error, process, most=8)
        self._failure = _Failure(error, process, text, status)

    def _look_for_stopped(self, looks: Mapping[int, int]) -> None:
        """Fail a rank that each of the last looks has found stopped; `looks` counts them by pid."""
        if self._settled:
            return
        processes = self._supervisor.processes
        looks = {one.pid: looks.get(one.pid, 0) + 1 for one in processes if one.stopped}
        for process in processes:
            if looks.get(process.pid, 0) >= _LOOKS:
                text = "is stopped, so that the other hosts take it for gone"
                self._fail(process, Cause.LATE, rank_errors.failed(process, text))
                return
        self._loop.call_later(_LOOK, partial(self._look_for_stopped, looks))

    def _end(self) -> None:
        """Ask the ranks to end by the arena's abort word, then by TERM, then by KILL."""
        self._settled = True
        if len(self._reports) < len(self._supervisor.processes):
            self._arena.abort(None, Cause.STOPPED, "the supervisor stopped the job")
        self._loop.forget(self._signals)
        ender = self._supervisor.end(ASKED, self._log_stuck)
        fault: Exception | None = None
        while not ender.over:
            try:
                self._loop.turn()
            except Exception as error:  # all other processes are to be ended, too
                fault = fault or error
        if fault is not None:
            raise fault

    def _log_stuck(self, processes: Sequence[RankProcess]) -> None:
        for process in processes:
            self._log(process.rank.rank, 2, rank_errors.stuck(process))
