"""One life of a group of ranks: from the start of its processes to their end. A restart makes a new one."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from ..comm.arena import Arena, Cause
from ..comm.channel import ChannelClosed
from ..comm.errors import RankmeshError, error_named
from ..comm.messages import Exchange, Exchanged, Failed, Message, Ready, Start
from ..comm.placement import RankSpec
from ..comm.processes.ending import end_processes
from ..comm.processes.output import Log, Output
from ..comm.processes.post import Post
from ..comm.processes.rank_process import Command, RankProcess, python
from ..comm.progress import Progress, Snapshot
from ..comm.relay import Relay
from ..comm.serving.orders import ServeJob, Serving, Stop
from ..comm.serving.ring import Ring
from .verdict import died

if TYPE_CHECKING:
    from .loop import Loop

_GRACE = 0.4


class Watcher:
    """Who hears of an epoch, in the loop's thread; to be overridden."""

    def ready(self, epoch: Epoch) -> None:
        """All ranks take orders."""

    def answered(self, epoch: Epoch) -> None:
        """Some order has been answered, or a rank needs room."""

    def failed(self, epoch: Epoch, error: RankmeshError, rank: int) -> None:
        """The epoch is over; `rank` is to blame. Told once."""


class Epoch:
    """The processes of one group, their meeting, and the ring of their orders. Used in the loop's thread.

    Answers of an earlier epoch cannot be mistaken for this one's: each has a ring of its own.
    """

    def __init__(self, number: int, ranks: Sequence[RankSpec], job: ServeJob, timeout: float, depth: int, loop: Loop,
                 watcher: Watcher, log: Log) -> None:
        """Start the processes. `job` lacks only the descriptors of ring and bell; `timeout` is in seconds."""
        self.number, self.ranks, self.over = number, ranks, False
        self._loop, self._watcher = loop, watcher
        size = ranks[0].rank.world_size
        self.arena = Arena.create(size)
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._ring_fd = Ring.create(size, depth)
        self.ring = Ring(self._ring_fd, self._bell)
        self._relay = Relay(size, timeout)
        self._post = Post(loop.selector, timeout)
        self.processes: list[RankProcess] = []
        self.reports: dict[int, Serving] = {}
        loop.watch(self._bell, self._rung)
        try:
            for spec in ranks:
                self._start(spec, job, timeout, log)
        except BaseException:
            self.kill()
            raise

    @property
    def ready(self) -> bool:
        """Whether all ranks take orders."""
        return len(self.reports) == len(self.ranks) and not self.over

    def progress(self, rank: int) -> Snapshot:
        """How far a rank has come."""
        return Progress(self.arena, rank).read()

    def fail(self, error: RankmeshError, rank: int) -> None:
        """End the epoch because of `rank`: all its processes are killed, and the watcher is told."""
        if self.over:
            return
        self.arena.abort(rank, Cause.FAILED, str(error))
        self.kill()
        self._watcher.failed(self, error, rank)

    def kill(self) -> None:
        """End all processes at once, and free what the epoch has."""
        self._let_go()
        end_processes(self.processes, 0.0, 0.0)
        self._close()

    def stop(self) -> None:
        """End in order: ranks that are idle hear of it, others are asked, told and killed. Takes a second at most."""
        self._let_go()
        if len(self.reports) == len(self.ranks):
            self.ring.give(self.ring.given, Stop())
        end_processes(self.processes, _GRACE)
        self._close()

    def _let_go(self) -> None:
        self.over = True
        self._loop.forget(self._bell)
        for process in self.processes:
            for descriptor in (process.channel, process.pidfd, *process.outputs):
                self._loop.forget(descriptor)
        self._post.close()

    def _close(self) -> None:
        for process in self.processes:
            process.kill_descendants()
            process.close()
        self.arena.close()
        for descriptor in (self._bell, self._ring_fd):
            os.close(descriptor)

    def _start(self, spec: RankSpec, job: ServeJob, timeout: float, log: Log) -> None:
        job = msgspec.structs.replace(job, threads=spec.threads, ring=self._ring_fd, bell=self._bell,
                                      cores=list(spec.cores), parent=os.getpid())
        command = Command(
            python("-m", "rankmesh.worker.rank_loop", f"rank={spec.rank.rank}"), prepared=True,
            start=Start(spec.rank, msgspec.msgpack.encode(job), timeout),
            descriptors=(self._ring_fd, self._bell, job.tensors))
        process = RankProcess(spec.rank, command, self.arena, log)
        self.processes.append(process)
        self._loop.watch(process.channel, lambda: self._read(process))
        self._loop.watch(process.pidfd, lambda: self._ended(process))
        for output in process.outputs:
            self._loop.watch(output, self._reader(output))
        assert command.start is not None
        self._post.send(process, command.start)

    def _reader(self, output: Output) -> Callable[[], None]:
        def read() -> None:
            if not output.read():
                self._loop.forget(output)
        return read

    def _rung(self) -> None:
        os.eventfd_read(self._bell)
        self._watcher.answered(self)

    def _read(self, process: RankProcess) -> None:
        try:
            messages = process.channel.receive_ready()
        except ChannelClosed:
            self._loop.forget(process.channel)  # its end tells more
            return
        for message in messages:
            self._handle(process, message)

    def _handle(self, process: RankProcess, message: Message) -> None:
        rank = process.rank.rank
        if self.over:
            return
        if isinstance(message, Exchange):
            payloads = self._relay.give(rank, message.payload)
            for other in self.processes if payloads else ():
                self._post.send(other, Exchanged(payloads or []))
        elif isinstance(message, Ready):
            self.reports[rank] = msgspec.msgpack.decode(message.report, type=Serving)
            if self.ready:
                self._watcher.ready(self)
        elif isinstance(message, Failed):
            self.fail(error_named(message.error, message.text), rank)

    def _ended(self, process: RankProcess) -> None:
        self._loop.forget(process.pidfd)
        self._read(process)  # its last words may say why
        if not self.over:
            process.read_outputs()
            self.fail(died(process, self.progress(process.rank.rank)), process.rank.rank)
