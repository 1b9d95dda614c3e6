"""One life of a group of ranks: from the start of its processes to their end. A restart makes a new one."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import msgspec

from ..comm.arena import Arena
from ..comm.errors import RankmeshError
from ..comm.gpus import gpu_count
from ..comm.messages import Start
from ..comm.placement import RankSpec
from ..comm.processes.output import Log, Output
from ..comm.processes.rank_process import Command, RankProcess, python
from ..comm.progress import Progress, Snapshot, Stage
from ..comm.serving.nonsense import Nonsense
from ..comm.serving.orders import ServeJob, Serving, Stop, encode_order
from ..comm.serving.ring import Ring
from ..comm.serving.seats import Seats
from ..comm.sharing.undumpable import CLOSED
from .conversation import Conversation, Inquiry
from .deathwatch import Deathwatch
from .editions import Edition
from .ending import ASKED, AT_ONCE, Ending, Schedule
from .loop import Act, Loop
from .verdict import died, faulty


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

    Answers of an earlier epoch cannot be mistaken for this one's: each has a ring of its own. Whatever a callback about
    its ranks raises, for instance because a rank has written nonsense, ends the epoch and nothing else.
    """

    def __init__(self, number: int, ranks: Sequence[RankSpec], depth: int, seats: Seats, loop: Loop,
                 watcher: Watcher) -> None:
        """`depth` orders may be under way, `seats` are callers'. Nothing is started yet. OSError where memory lacks."""
        self.number, self.ranks, self.over = number, ranks, False
        self._loop, self._watcher = loop, watcher
        size = ranks[0].rank.world_size
        self.processes: list[RankProcess] = []
        self._ending: Ending | None = None
        self._deathwatch: Deathwatch | None = None
        self._descriptors: list[int] = []
        self.arena = Arena.create(size)
        try:
            self._bell = self._own(os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC))
            self._ring_fd = self._own(Ring.create(size, depth))
            self.ring = Ring(self._ring_fd, self._bell, seats)
        except OSError:
            self._close()
            raise
        self._talk = Conversation(self.processes, size, loop, self.guarded, self._all_ready, self._told_failure)

    def start(self, job: ServeJob, edition: Edition, timeout: float, log: Log) -> None:
        """Start the processes. `job` lacks what differs from rank to rank; collectives have `timeout` seconds."""
        self._loop.watch(self._bell, self.guarded(self._rung))
        for spec in self.ranks:
            try:
                self._start(spec, msgspec.structs.replace(job, stage=edition.first(spec.rank.rank)), timeout, log)
            except Exception as error:  # whatever it is: who waits for this epoch must hear of it
                self.fail(RankmeshError(f"{spec.rank} cannot be started: {error}"), spec.rank.rank, guilty=False)
                return

    @property
    def ready(self) -> bool:
        """Whether all ranks take orders."""
        return self._talk.complete and not self.over

    @property
    def reports(self) -> dict[int, Serving]:
        """What the ranks that are ready have reported."""
        return self._talk.reports

    @property
    def gone(self) -> bool:
        """Whether the epoch is over and no process of it is left."""
        return self._ending is not None and self._ending.done

    @property
    def awaited(self) -> list[int]:
        """While the ranks start: those that the others, or we, wait for."""
        return self._talk.awaited

    def progress(self, rank: int) -> Snapshot:
        """How far a rank has come."""
        return Progress(self.arena, rank).read()

    def ask(self, inquiry: Inquiry) -> None:
        """Ask all ranks something beside their orders; the inquiry is told their replies, or that none will come."""
        self._talk.ask(inquiry)

    def guarded(self, act: Act) -> Act:
        """`act` for the loop to call: whatever it raises is a failure of the ranks."""
        def guarded() -> None:
            try:
                act()
            except Exception as fault:
                self._blame(fault)
        return guarded

    def _blame(self, fault: Exception) -> None:
        """End the epoch because of what a callback about it has raised: a rank is at fault, or this program."""
        if self.over or not self.processes:
            raise fault
        rank = fault.rank if isinstance(fault, Nonsense) else 0
        self.fail(faulty(self.processes[rank], fault), rank)

    def fail(self, error: RankmeshError, rank: int, guilty: bool = True) -> None:
        """End the epoch because of `rank`: all its processes are killed, and the watcher is told."""
        if not self.over:
            self._end(AT_ONCE)
            self._watcher.failed(self, error, rank, guilty)
            self._talk.lose()

    def stop(self) -> None:
        """End in order: ranks that are idle hear of it, the others are asked, told and killed within a second."""
        if not self.over:
            if self.ready:
                self.ring.give(self.ring.given, encode_order(Stop()))
            self._end(ASKED if self.ready else AT_ONCE)
            self._talk.lose()

    def _end(self, schedule: Schedule) -> None:
        self.over = True
        self._loop.forget(self._bell)
        for process in self.processes:
            for descriptor in (process.channel, process.pidfd, *process.outputs):
                self._loop.forget(descriptor)
        self._talk.end()
        if self._deathwatch is not None:
            self._deathwatch.stop()
            self._deathwatch = None  # which refers to this
        self._ending = Ending(self.processes, schedule, self._loop, self._ended_all,
                              partial(_keeps, self.arena))

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
            place=f"device {spec.rank.device}" if job.device != "cpu" and gpu_count() else "",
            descriptors=job.inherited, environment=CLOSED)
        process = RankProcess(spec.rank, command, self.arena, log)
        self.processes.append(process)
        self._loop.guardian.watch(process.pid)
        self._loop.watch(process.channel, self.guarded(partial(self._talk.read, process)))
        self._loop.watch(process.pidfd, self.guarded(partial(self._ended, process)))
        for output in process.outputs:
            self._loop.watch(output, self.guarded(self._reader(output)))
        self._talk.post.send(process, start, job.sent)

    def _reader(self, output: Output) -> Callable[[], None]:
        def read() -> None:
            if not output.read():
                self._loop.forget(output)
        return read

    def look(self) -> None:
        """Look for answers, though nobody has rung."""
        try:
            if not self.over:
                self._watcher.answered(self)
        except Exception as fault:
            self._blame(fault)

    def _rung(self) -> None:
        with suppress(BlockingIOError):  # a rank may have read it
            os.eventfd_read(self._bell)
        self._watcher.answered(self)

    def _all_ready(self) -> None:
        self._deathwatch = Deathwatch(self.arena, self._note_death)
        self._deathwatch.start()
        self._watcher.ready(self)

    def _told_failure(self, error: RankmeshError, rank: int) -> None:
        self.fail(error, rank, guilty=False)

    def _note_death(self, rank: int) -> None:
        """In the thread of the deathwatch."""
        self._loop.call_soon(self.guarded(partial(self._dying, self.processes[rank])))

    def _dying(self, process: RankProcess) -> None:
        """The kernel marks a word of the rank when it ends; the rank could write there, too."""
        if not self.over and not process.ending:
            raise Nonsense(process.rank.rank, "wrote in shared memory that it has ended, and lives on")
        self._ended(process)

    def _ended(self, process: RankProcess) -> None:
        """A process has died, or is about to: what it has said and answered before still counts."""
        if self.over:
            return
        process.kill_descendants()
        self._talk.read_all(process)
        if not self.over:
            self._watcher.answered(self)
        if not self.over:
            process.read_outputs()
            self.fail(died(process, self.progress(process.rank.rank)), process.rank.rank)


def _keeps(arena: Arena, process: RankProcess) -> bool:
    """Whether a rank has carried out all its orders, and may still write its build into the model cache."""
    return Progress(arena, process.rank.rank).stage is Stage.DONE
