"""Local ranks: the processes of an incarnation that this process starts as its children."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from ...comm.host.resources import gpu_count
from ...comm.host.secrecy import CLOSED
from ...comm.job.placement import RankSpec
from ...comm.job_memory.arena import Arena
from ...comm.job_memory.exit_flag import ExitMonitor
from ...comm.job_memory.progress import Progress, ProgressSnapshot
from ...comm.processes.event_callback import EventCallback
from ...comm.processes.event_loop import Action, Timer
from ...comm.processes.output import Log
from ...comm.processes.process_ender import Schedule
from ...comm.processes.rank_events import ChannelLost, RankEvent, RankExited, RankReady
from ...comm.processes.rank_process import Command, RankProcess, python
from ...comm.processes.rank_supervisor import RankSupervisor
from ...comm.processes.supervised_process import SupervisedProcess
from ...comm.processes.uninstrumented import uninstrumented
from ...comm.rendezvous.relay import Relay
from ...comm.request_memory.owned_arena import Region
from ...comm.serving.caller_slots import CallerSlots
from ...comm.serving.host_ring import HostRing
from ...comm.serving.orders import InvalidRankData, ServeJob
from ...comm.serving.ring import Ring
from ...comm.transport.messages import ControlRequest, Start
from ..event_loop.loop import EventLoopThread
from .control import PlacedRequest
from .order_memory import OrderMemory
from .replica_spec import ReplicaSpec
from .supervised_ranks import SupervisedEvent

_EXIT_GRACE = 5.0
"""Seconds within which a process ends that has closed its channel."""


class LocalRanks:
    """See SupervisedRanks. The kernel's word tells the end of a process."""

    def __init__(
        self,
        specs: Sequence[RankSpec],
        depth: int,
        slots: CallerSlots,
        loop: EventLoopThread,
        notify: Callable[[SupervisedEvent], None],
        log: Log,
        relay: Relay | None = None,
    ) -> None:
        """Lay out memory for `depth` orders; OSError where there is none.

        `relay` collects exchanges, where these are not all ranks of the replica.
        """
        self.specs = specs
        self._places = {spec.rank.rank: place for place, spec in enumerate(specs)}
        self._loop = loop
        self._notify = EventCallback(notify, loop)
        self._ready = 0
        self._exit_monitor: ExitMonitor | None = None
        size = specs[0].rank.world_size
        self.arena = Arena.create(size)
        try:
            self.memory = OrderMemory(size, depth, slots, self._ring)
        except OSError:
            self.arena.close()
            raise
        self._ending = False
        self._timers: list[Timer] = []
        self._supervisor = RankSupervisor(
            self.arena, relay or Relay(size, 0.0), loop, loop.guardian, self._handle, log
        )  # without a deadline for exchanges: that of the whole start counts
        self.processes: Sequence[RankProcess] = self._supervisor.processes
        self.guarded = self._supervisor.guarded
        self.call_later = self._supervisor.call_later
        self.answer_exchange = self._supervisor.answer_exchange

    @property
    def fetching(self) -> bool:
        """See SupervisedRanks.fetching: the files are here."""
        return False

    @property
    def awaited(self) -> list[int]:
        """See SupervisedRanks.awaited."""
        return self._supervisor.awaited

    @property
    def culprit(self) -> int | None:
        """See SupervisedRanks.culprit."""
        record = self.arena.aborted()
        return None if record is None else record.rank

    @property
    def host_lost(self) -> bool:
        """See SupervisedRanks.host_lost."""
        return False

    @property
    def gone(self) -> bool:
        """See SupervisedRanks.gone."""
        return self._supervisor.gone

    def start(self, rank: int, job: ServeJob, weights: Sequence[Region], timeout: float) -> None:
        """See SupervisedRanks.start: the rank has the memory of all weights."""
        spec = self.specs[self._places[rank]]
        self._supervisor.start(spec.rank, self._command(spec, job, timeout))

    def process(self, rank: int) -> RankProcess:
        """The process of a rank that was started."""
        return self.processes[self._places[rank]]

    def progress(self, rank: int) -> ProgressSnapshot:
        """See SupervisedRanks.progress."""
        return Progress(self.arena, rank).read()

    def carried(self, number: int) -> object:
        """See SupervisedRanks.carried: orders and answers are there at once."""
        return None

    def ask(self, rank: int, number: int, request: PlacedRequest) -> None:
        """See SupervisedRanks.ask."""
        self._supervisor.send(self.process(rank), ControlRequest(number, request.data))

    def request_stacks(self, rank: int, then: Action) -> Timer:
        """See SupervisedRanks.request_stacks."""
        return self._supervisor.request_stacks(self.process(rank), then)

    def end(
        self, schedule: Schedule, finished: Callable[[Sequence[SupervisedProcess]], None]
    ) -> None:
        """See SupervisedRanks.end."""
        self._ending = True
        if self._exit_monitor is not None:
            self._exit_monitor.stop()
            self._exit_monitor = None  # it refers to this object, whose memory is to be freed
        for timer in self._timers:
            timer.cancel()
        self._supervisor.end(schedule, partial(self._finish, finished))

    def _finish(
        self,
        finished: Callable[[Sequence[SupervisedProcess]], None],
        stuck: Sequence[RankProcess],
    ) -> None:
        if not stuck:
            self._notify.drop()
            self.arena.close()
            self.memory.close()
        finished(stuck)

    def _ring(self, fd: int, bell: int, slots: CallerSlots) -> Ring:
        absent = [rank for rank in range(self.arena.world_size) if rank not in self._places]
        return HostRing(fd, bell, slots, absent) if absent else Ring(fd, bell, slots)

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

    def _handle(self, event: RankEvent[RankProcess]) -> None:
        if isinstance(event, RankExited):
            event.process.kill_descendants()
            event.process.read_outputs()
        elif self._ending:  # what comes now must not begin anything that refers to this object
            pass
        elif isinstance(event, RankReady):
            self._ready += 1
            if self._ready == len(self.specs):
                self._exit_monitor = ExitMonitor(
                    self.arena, list(self._places), self._note_exit_flag
                )
                self._exit_monitor.start()
        elif isinstance(event, ChannelLost):  # mostly as its process ends, which tells more
            check = partial(self._check_exit, event.process, "closed its channel, and lives on")
            self._timers.append(self.call_later(_EXIT_GRACE, check))
        self._notify(event)

    def _note_exit_flag(self, rank: int) -> None:
        """Pass on the end of a rank from the exit monitor's thread."""
        process = self.process(rank)
        self._loop.call_soon(self.guarded(lambda: self._check_exit_flag(process)))

    def _check_exit_flag(self, process: RankProcess) -> None:
        """Handle an exit flag: the kernel sets it when the rank ends, but a rank could set it."""
        if self._exit_monitor is not None:
            self._check_exit(process, "wrote in shared memory that it has ended, and lives on")
            self._supervisor.note_exit(process)

    def _check_exit(self, process: RankProcess, text: str) -> None:
        if not process.ending:
            raise InvalidRankData(process.rank.rank, text)


class LocalRankLauncher:
    """See RankLauncher: all ranks are children of this process."""

    elsewhere = False

    def __init__(self, slots: CallerSlots, loop: EventLoopThread) -> None:
        """`slots` are those of callers."""
        self._slots = slots
        self._loop = loop

    def launch(
        self,
        spec: ReplicaSpec,
        depth: int,
        notify: Callable[[SupervisedEvent], None],
        log: Log,
    ) -> LocalRanks:
        """See RankLauncher.launch."""
        return LocalRanks(spec.ranks, depth, self._slots, self._loop, notify, log)

    def open(self) -> None:
        """See RankLauncher.open: nothing is needed."""

    def close(self) -> None:
        """See RankLauncher.close."""

    def await_place(self, action: Action) -> None:
        """See RankLauncher.await_place: there is always room."""
        self._loop.call_soon(action)
