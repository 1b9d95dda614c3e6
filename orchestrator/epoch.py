"""One life of a group of ranks: from the start of its processes to their end. A restart makes a new one."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import msgspec

from ..comm.arena import Arena
from ..comm.channel import ChannelClosed, ChannelGarbled
from ..comm.errors import RankFailed, RankmeshError, error_named
from ..comm.messages import Ask, Exchange, Exchanged, Failed, Message, Ready, Start, Told
from ..comm.placement import RankSpec
from ..comm.processes.output import Log, Output
from ..comm.processes.post import Post
from ..comm.processes.rank_process import Command, RankProcess, python
from ..comm.progress import Progress, Snapshot, Stage
from ..comm.relay import Relay
from ..comm.serving.orders import ServeJob, Serving, Stop, decode_serving, encode_order
from ..comm.serving.ring import Ring
from ..comm.serving.seats import Seats
from ..comm.sharing.undumpable import CLOSED
from .deathwatch import Deathwatch
from .editions import Edition
from .ending import ASKED, AT_ONCE, Ending, Schedule
from .loop import Loop
from .verdict import died


class Inquiry(Protocol):
    """Who asks the ranks of an epoch something; called in the loop's thread."""

    questions: Sequence[bytes]
    """One per rank, of comm/serving/weights.py."""

    def take(self, rank: int, reply: bytes) -> bool:
        """What a rank has replied; whether it was the last one."""

    def lose(self) -> None:
        """The epoch is over: no more replies come."""


class Watcher:
    """Who hears of an epoch, in the loop's thread; to be overridden."""

    def ready(self, epoch: Epoch) -> None:
        """All ranks take orders."""

    def answered(self, epoch: Epoch) -> None:
        """Some order has been answered, or a rank needs room."""

    def failed(self, epoch: Epoch, error: RankmeshError, rank: int, guilty: bool) -> None:
        """The epoch is over because of `rank`; `guilty` says whether what that ran may be the cause. Told once."""

    def ended(self, epoch: Epoch) -> None:
        """No process is left; told before, too, if one does not end even when it is killed."""


class Epoch:
    """The processes of one group, their meeting, and the ring of their orders. Used in the loop's thread.

    Answers of an earlier epoch cannot be mistaken for this one's: each has a ring of its own.
    """

    def __init__(self, number: int, ranks: Sequence[RankSpec], depth: int, seats: Seats, loop: Loop,
                 watcher: Watcher) -> None:
        """`depth` orders may be under way, `seats` are callers'. Nothing is started yet. OSError where memory lacks."""
        self.number, self.ranks, self.over = number, ranks, False
        self._loop, self._watcher = loop, watcher
        size = ranks[0].rank.world_size
        self.processes: list[RankProcess] = []
        self.reports: dict[int, Serving] = {}
        self._ending: Ending | None = None
        self._deathwatch: Deathwatch | None = None
        self._inquiries: dict[int, Inquiry] = {}
        self._asked = 0
        self._descriptors: list[int] = []
        self.arena = Arena.create(size)
        try:
            self._bell = self._own(os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC))
            self._ring_fd = self._own(Ring.create(size, depth))
            self.ring = Ring(self._ring_fd, self._bell, seats)
        except OSError:
            self._close()
            raise
        self._relay = Relay(size, 0.0)  # the deadline is that of the whole start
        self._post = Post(loop.selector, 0.0)

    def start(self, job: ServeJob, edition: Edition, timeout: float, log: Log) -> None:
        """Start the processes. `job` lacks what differs from rank to rank; collectives have `timeout` seconds."""
        self._loop.watch(self._bell, self._rung)
        for spec in self.ranks:
            try:
                self._start(spec, msgspec.structs.replace(job, stage=edition.first(spec.rank.rank)), timeout, log)
            except Exception as error:  # whatever it is: who waits for this epoch must hear of it
                self.fail(RankmeshError(f"{spec.rank} cannot be started: {error}"), spec.rank.rank, guilty=False)
                return

    @property
    def ready(self) -> bool:
        """Whether all ranks take orders."""
        return len(self.reports) == len(self.ranks) and not self.over

    @property
    def gone(self) -> bool:
        """Whether the epoch is over and no process of it is left."""
        return self._ending is not None and self._ending.done

    @property
    def awaited(self) -> list[int]:
        """While the ranks start: those that the others, or we, wait for."""
        return self._relay.late() if self._relay.pending else [
            rank for rank in range(len(self.ranks)) if rank not in self.reports]

    def progress(self, rank: int) -> Snapshot:
        """How far a rank has come."""
        return Progress(self.arena, rank).read()

    def ask(self, inquiry: Inquiry) -> None:
        """Ask all ranks something beside their orders; the inquiry is told their replies, or that none will come."""
        if not self.ready:
            inquiry.lose()
            return
        self._asked += 1
        self._inquiries[self._asked] = inquiry
        for process, question in zip(self.processes, inquiry.questions, strict=True):
            self._post.send(process, Ask(self._asked, question))

    def fail(self, error: RankmeshError, rank: int, guilty: bool = True) -> None:
        """End the epoch because of `rank`: all its processes are killed, and the watcher is told."""
        if not self.over:
            self._end(AT_ONCE)
            self._watcher.failed(self, error, rank, guilty)

    def stop(self) -> None:
        """End in order: ranks that are idle hear of it, the others are asked, told and killed within a second."""
        if not self.over:
            if self.ready:
                self.ring.give(self.ring.given, encode_order(Stop()))
            self._end(ASKED if self.ready else AT_ONCE)

    def _end(self, schedule: Schedule) -> None:
        self.over = True
        self._loop.forget(self._bell)
        for process in self.processes:
            for descriptor in (process.channel, process.pidfd, *process.outputs):
                self._loop.forget(descriptor)
        self._post.close()
        if self._deathwatch is not None:
            self._deathwatch.stop()
            self._deathwatch = None  # which refers to this
        self._ending = Ending(self.processes, schedule, self._loop, self._ended_all,
                              partial(_keeps, self.arena))
        for inquiry in self._inquiries.values():
            inquiry.lose()
        self._inquiries.clear()

    def _ended_all(self) -> None:
        if self.gone:
            self._close()
        self._watcher.ended(self)

    def _own(self, descriptor: int) -> int:
        self._descriptors.append(descriptor)
        return descriptor

    def _close(self) -> None:
        self.arena.close()
        for descriptor in self._descriptors:
            os.close(descriptor)

    def _start(self, spec: RankSpec, job: ServeJob, timeout: float, log: Log) -> None:
        job = msgspec.structs.replace(job, threads=spec.threads, ring=self._ring_fd, bell=self._bell,
                                      cores=list(spec.cores), parent=os.getpid())
        start = Start(spec.rank, msgspec.msgpack.encode(job), timeout)
        command = Command(
            python("rankmesh.worker.rank_loop", f"rank={spec.rank.rank}"), prepared=True, start=start,
            descriptors=job.inherited, environment=CLOSED)
        process = RankProcess(spec.rank, command, self.arena, log)
        self.processes.append(process)
        self._loop.guardian.watch(process.pid)
        self._loop.watch(process.channel, partial(self._read, process))
        self._loop.watch(process.pidfd, partial(self._ended, process))
        for output in process.outputs:
            self._loop.watch(output, self._reader(output))
        self._post.send(process, start, job.sent)

    def _reader(self, output: Output) -> Callable[[], None]:
        def read() -> None:
            if not output.read():
                self._loop.forget(output)
        return read

    def look(self) -> None:
        """Look for answers, though nobody has rung."""
        self._watcher.answered(self)

    def _rung(self) -> None:
        os.eventfd_read(self._bell)
        self._watcher.answered(self)

    def _read(self, process: RankProcess) -> bool:
        """Take what a rank says; False when it says no more."""
        try:
            messages = process.channel.receive_ready()
        except ChannelClosed as error:
            self._loop.forget(process.channel)  # its end tells more
            if isinstance(error, ChannelGarbled):
                self._garbled(process, error)
            return False
        for message in messages:
            try:
                self._handle(process, message)
            except msgspec.DecodeError as error:
                self._garbled(process, error)
        return True

    def _garbled(self, process: RankProcess, error: Exception) -> None:
        self.fail(RankFailed(f"{process.rank} sent what is no message of this version of rankmesh: {error}"),
                  process.rank.rank)

    def _handle(self, process: RankProcess, message: Message) -> None:
        rank = process.rank.rank
        if self.over:
            return
        if isinstance(message, Exchange):
            payloads = self._relay.give(rank, message.payload)
            for other in self.processes if payloads else ():
                self._post.send(other, Exchanged(payloads or []))
        elif isinstance(message, Ready):
            self.reports[rank] = decode_serving(message.report)
            if self.ready:
                self._deathwatch = Deathwatch(self.arena, self._note_death)
                self._deathwatch.start()
                self._watcher.ready(self)
        elif isinstance(message, Told):
            self._take_reply(rank, message)
        elif isinstance(message, Failed):
            self.fail(error_named(message.error, message.text), rank, guilty=False)

    def _take_reply(self, rank: int, told: Told) -> None:
        if told.number not in self._inquiries:
            raise msgspec.DecodeError(f"a reply to question {told.number}, which is not open")
        if self._inquiries[told.number].take(rank, told.reply):
            del self._inquiries[told.number]

    def _note_death(self, rank: int) -> None:
        """In the thread of the deathwatch."""
        self._loop.call_soon(partial(self._ended, self.processes[rank]))

    def _ended(self, process: RankProcess) -> None:
        """A process has died, or is about to: what it has said and answered before still counts."""
        if self.over:
            return
        process.kill_descendants()
        while not self.over and _readable(process) and self._read(process):
            pass
        if not self.over:
            self._watcher.answered(self)
        if not self.over:
            process.read_outputs()
            self.fail(died(process, self.progress(process.rank.rank)), process.rank.rank)


def _keeps(arena: Arena, process: RankProcess) -> bool:
    """Whether a rank has carried out all its orders, and may still write its build into the model cache."""
    return Progress(arena, process.rank.rank).stage is Stage.DONE


def _readable(process: RankProcess) -> bool:
    poll = select.poll()
    poll.register(process.channel, select.POLLIN)
    return bool(poll.poll(0))
