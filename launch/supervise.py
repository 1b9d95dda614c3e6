"""Starts the ranks of one host, relays their exchanges, and ends all of them when one fails.

Where a job has ranks on other hosts too, its ranks exchange without the supervisor, and tell it what fails there.
"""

from __future__ import annotations

import selectors
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import NoReturn, Protocol

from ..comm.arena import Arena, Cause
from ..comm.channel import ChannelClosed, ChannelGarbled
from ..comm.messages import Exchange, Exchanged, Failed, Finished, Message
from ..comm.processes.ending import end_processes
from ..comm.processes.guardian import Guardian
from ..comm.processes.output import Log, Output
from ..comm.processes.post import Post
from ..comm.processes.rank_process import Command, RankProcess
from ..comm.progress import Progress, Stage
from ..comm.rank import Rank
from ..comm.relay import Relay
from .blame import Blame, has_ended
from .signals import Interrupted, SignalNotes
from .stopped import StoppedRanks

_GRACE = 0.4


class Ticker(Protocol):
    """Somebody who wants to be called now and then while the supervisor waits."""

    def patience(self) -> float | None:
        """In how many seconds at the latest; None: no need."""

    def tick(self) -> None:
        """The call, after every wait."""


class Supervisor:
    """Runs one command per rank; a context manager that leaves no process behind, whatever happens.

    `timeout` is how many seconds ranks wait for each other in exchanges and collectives (0: for ever).
    After a failure, `status` is what the process that failed first had exited with by itself (negative for a
    signal; None: it had not), and `followers` has the errors with which the other ranks ended.
    """

    def __init__(self, ranks: Sequence[Rank], commands: Sequence[Command], timeout: float, log: Log) -> None:
        self._ranks, self._commands, self._timeout, self._log = ranks, commands, timeout, log
        self._arena = Arena.create(ranks[0].world_size)
        self._selector = selectors.DefaultSelector()
        self._processes: list[RankProcess] = []
        self._reports: dict[int, bytes] = {}
        self._relay = Relay(len(ranks), timeout)
        self._post = Post(self._selector, timeout)
        self._blame = Blame(self._arena, self._processes, timeout)
        self._guardian = Guardian()
        self._resources = ExitStack()
        self._stopped = StoppedRanks(watching=len(ranks) < ranks[0].world_size)
        self._signals = SignalNotes()
        self.followers: dict[int, str] = {}

    @property
    def status(self) -> int | None:
        """See the class."""
        return self._blame.status

    @property
    def errors(self) -> dict[int, str]:
        """What failed, by rank: the error of the rank to blame, and those with which others ended."""
        return {**self.followers, **self._blame.errors}

    @property
    def pids(self) -> list[int]:
        """The ranks' process ids, in rank order."""
        return [process.pid for process in self._processes]

    def stages(self) -> list[Stage]:
        """What each rank is doing now, in rank order."""
        return [Progress(self._arena, rank.rank).stage for rank in self._ranks]

    def __enter__(self) -> Supervisor:
        self._resources.callback(self._arena.close)
        self._resources.callback(self._selector.close)
        self._resources.callback(self._post.close)
        try:
            self._resources.enter_context(self._signals)
            self._resources.enter_context(self._guardian)
            self._resources.callback(self._end_all)
            self._selector.register(self._signals.fileno(), selectors.EVENT_READ, self._interrupt)
            for rank, command in zip(self._ranks, self._commands, strict=True):
                self._start(rank, command)
        except BaseException:
            self._resources.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._resources.close()

    def run(self, ticker: Ticker | None = None) -> list[bytes]:
        """Wait for every rank; the reports in rank order. Raises the first rank's error, or Interrupted.

        A rank with a job is done when it has reported, one without when its process has exited with status 0
        (its report is empty).
        """
        while len(self._reports) < len(self._ranks):
            for key, _ in self._selector.select(self._patience(ticker)):
                key.data()
            self._check()
            if ticker is not None:
                ticker.tick()
        return [self._reports[rank.rank] for rank in self._ranks]

    def _patience(self, ticker: Ticker | None) -> float | None:
        all_of_them = (self._relay.patience(), self._post.patience(), self._stopped.patience(),
                       ticker.patience() if ticker else None)
        return min((seconds for seconds in all_of_them if seconds is not None), default=None)

    def _start(self, rank: Rank, command: Command) -> None:
        process = RankProcess(rank, command, self._arena, self._log)
        self._processes.append(process)
        self._guardian.watch(process.pid)
        self._selector.register(process.channel, selectors.EVENT_READ, lambda: self._read(process))
        self._selector.register(process.pidfd, selectors.EVENT_READ, lambda: self._ended(process))
        for output in process.outputs:
            self._selector.register(output, selectors.EVENT_READ, lambda output=output: self._read_output(output))
        if command.start is not None:
            self._post.send(process, command.start)

    def _read(self, process: RankProcess) -> None:
        try:
            for message in process.channel.receive_ready():
                self._handle(process, message)
        except ChannelClosed as error:
            self._forget(process.channel)
            if isinstance(error, ChannelGarbled):
                self._blame.failed(process, Failed("RankFailed", f"{process.rank}: {error}"))

    def _read_output(self, output: Output) -> None:
        if not output.read():
            self._forget(output)

    def _forget(self, descriptor: object) -> None:
        if descriptor in {key.fileobj for key in self._selector.get_map().values()}:
            self._selector.unregister(descriptor)

    def _handle(self, process: RankProcess, message: Message) -> None:
        rank = process.rank.rank
        if isinstance(message, Exchange):
            self._answer(self._relay.give(rank, message.payload))
            self._check_round()
        elif isinstance(message, Finished):
            self._reports[rank] = message.report
        elif isinstance(message, Failed):
            self._blame.failed(process, message)

    def _answer(self, payloads: list[bytes] | None) -> None:
        if payloads is None:
            return
        for process in self._processes:
            self._post.send(process, Exchanged(payloads))

    def _check(self) -> None:
        """Is anybody late, deaf or stopped?"""
        if self._relay.patience() == 0.0:
            self._blame.late(self._relay.late())
        for process in self._post.late():
            self._blame.deaf(process)
        stopped = self._stopped.look(self._processes)
        if stopped is not None:
            self._blame.stopped(stopped)

    def _ended(self, process: RankProcess) -> None:
        self._forget(process.pidfd)
        if process.status() == 0:  # after a failure all groups are ended at once
            self._guardian.forget(process.pid)
        try:
            while True:
                for message in process.channel.receive_ready():
                    self._handle(process, message)
        except (ChannelClosed, OSError):
            self._forget(process.channel)
        rank = process.rank.rank
        if process.command.start is None and process.status() == 0:
            self._reports[rank] = b""
        progress = Progress(self._arena, rank)
        came_so_far, progress.stage = progress.read(), Stage.ENDED
        if rank not in self._reports:
            self._blame.died(process, came_so_far)
        self._check_round()

    def _check_round(self) -> None:
        """A round of exchanges that waits for a rank that has ended will never be complete."""
        gone = [r for r in self._relay.late() if has_ended(self._arena, r)]
        if gone and self._relay.pending:
            self._blame.left(gone[0])

    def _interrupt(self) -> NoReturn:
        raise Interrupted(self._signals.take())

    def _end_all(self) -> None:
        """Ask (the arena's abort word), then TERM, then KILL, each with a deadline; collect last words."""
        if len(self._reports) < len(self._processes):
            self._arena.abort(None, Cause.STOPPED, "the supervisor stopped the job")
        end_processes(self._processes, _GRACE)
        if len(self._reports) < len(self._processes):
            for process in self._processes:
                if process.rank.rank not in self._reports:  # the number of one that ended long ago may be another's
                    process.kill_descendants()
        for process in self._processes:
            if process.running:  # in an uninterruptible system call: the kernel ends it when that returns
                self._log(process.rank.rank, 2, f"process {process.pid} has been killed but did not end yet")
            else:
                self._last_words(process)
            process.close()

    def _last_words(self, process: RankProcess) -> None:
        try:
            for message in process.channel.receive_ready():
                if isinstance(message, Failed):
                    self.followers[process.rank.rank] = message.text
        except (ChannelClosed, OSError):
            return
