"""Remote ranks: the processes of an incarnation on the host of an agent."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from ...comm.agents.messages import (
    EndIncarnation,
    FromAgent,
    FromIncarnation,
    IncarnationEnded,
    IncarnationProgress,
    ModelWish,
    OrderAnswer,
    OrderDone,
    PrepareIncarnation,
    RankEnded,
    RankError,
    RankFault,
    RankLine,
    RankReported,
    RankStarted,
    ToAgent,
    WriteStacks,
)
from ...comm.agents.weight_messages import RankAnswered
from ...comm.job.placement import RankSpec
from ...comm.job_memory.progress import ProgressSnapshot
from ...comm.processes.event_callback import EventCallback
from ...comm.processes.event_loop import Action, Timer
from ...comm.processes.output import Log
from ...comm.processes.process_ender import ASKED, Schedule
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
from ...comm.serving.caller_slots import CallerSlots
from ...comm.serving.orders import InvalidRankData, ServeJob
from ...comm.serving.tensor_arena import OwnedArena, Region
from ...comm.transport.messages import Failed
from ..event_loop.loop import EventLoopThread
from ..replica.control import PlacedRequest, read_report
from ..replica.order_memory import OrderMemory
from ..replica.supervised_ranks import SupervisedEvent
from .agent_weights import AgentWeights
from .model_sender import ModelSender
from .remote_control import RemoteControl
from .remote_orders import RemoteOrders
from .remote_process import RemoteProcess
from .remote_ring import RemoteRing

_STACKS = 1.0
"""Seconds for a rank to write the stacks of its threads, and for them to come here."""


class RemoteRanks:
    """See SupervisedRanks. `take` is for the thread of the agent's messages."""

    def __init__(
        self,
        incarnation: int,
        specs: Sequence[RankSpec],
        depth: int,
        arena: OwnedArena,
        slots: CallerSlots,
        loop: EventLoopThread,
        notify: Callable[[SupervisedEvent], None],
        log: Log,
        send: Callable[[ToAgent, Sequence[memoryview]], None],
        released: Callable[[RemoteRanks], None],
        prepared: Callable[[RemoteRanks], None],
        models: ModelSender,
        weights: AgentWeights,
    ) -> None:
        """`send` takes messages for the agent; `prepared` is called before the first one, and
        `released` when the ranks are gone.

        Raises OSError where there is no memory.
        """
        self.incarnation = incarnation
        self.specs = specs
        self.gone = False
        self.processes = [RemoteProcess(spec.rank) for spec in specs]
        self.culprit: int | None = None
        self._loop = loop
        self._notify = EventCallback(notify, loop)
        self._log = log
        self._send = send
        self._released = released
        self._models = models
        self._control = RemoteControl(incarnation, weights, send)
        self._finished: Callable[[Sequence[SupervisedProcess]], None] | None = None
        self._orders = RemoteOrders(incarnation, arena, send)
        size = specs[0].rank.world_size
        self.memory = OrderMemory(size, depth, slots, partial(RemoteRing, outlet=self._orders))
        self._orders.begin(self.memory.ring)
        prepared(self)
        send(PrepareIncarnation(incarnation, list(specs), depth), ())

    @property
    def awaited(self) -> list[int]:
        """See SupervisedRanks.awaited."""
        return [one.rank.rank for one in self.processes if not one.reported]

    @property
    def fetching(self) -> bool:
        """See SupervisedRanks.fetching."""
        return self._models.busy

    def start(self, rank: int, job: ServeJob, weights: Sequence[Region], timeout: float) -> None:
        """See SupervisedRanks.start."""
        if self._control.prepare(rank, job, weights, timeout) == len(self.specs):
            self._models.offer(job, len(self.specs), self._control.start_all, self._fail)

    def guarded(self, action: Action) -> Action:
        """See SupervisedRanks.guarded."""
        return self._notify.guarded(action)

    def call_later(self, seconds: float, action: Action) -> Timer:
        """See SupervisedRanks.call_later."""
        return self._notify.call_later(seconds, action)

    def progress(self, rank: int) -> ProgressSnapshot:
        """See SupervisedRanks.progress."""
        return self.processes[rank].progress

    def ask(self, rank: int, number: int, request: PlacedRequest) -> None:
        """See SupervisedRanks.ask."""
        self._control.ask(rank, number, request)

    def request_stacks(self, rank: int, then: Action) -> Timer:
        """See SupervisedRanks.request_stacks."""
        self._tell(WriteStacks(self.incarnation, rank))
        return self.call_later(_STACKS, then)

    def end(
        self, schedule: Schedule, finished: Callable[[Sequence[SupervisedProcess]], None]
    ) -> None:
        """See SupervisedRanks.end."""
        self._finished = finished
        self._models.close()
        if not self.gone:  # else `lose` frees the memory
            self._tell(EndIncarnation(self.incarnation, schedule is ASKED))

    def lose(self, text: str) -> None:
        """The agent is gone: `text` is the end of a sentence about a rank."""
        if self.gone:
            return
        self.gone = True
        self._models.close()
        if self._finished is None:
            self._notify(RankLost(self.processes[0], text))
        if self._finished is not None:  # the incarnation has ended the ranks by now
            self._free(self._finished)

    def take(self, message: FromAgent, size: int, read_into: Callable[[memoryview], None]) -> None:
        """Take a message of the agent, and the `size` bytes behind it."""
        if isinstance(message, ModelWish):
            failed = self._models.answer(message.wish)
            if failed is not None:
                self._loop.call_soon(self.guarded(partial(self._fail, failed)))
            return
        try:
            match message:
                case OrderDone():
                    self._orders.finish(message, size, read_into)
                case OrderAnswer():
                    self._orders.take(message, size, read_into)
                case _:
                    if isinstance(message, RankAnswered):
                        self._control.take_weights(message, size, read_into)
                    self._loop.call_soon(self.guarded(partial(self._handle, message)))
        except InvalidRankData as fault:
            self._loop.call_soon(partial(self._notify, CallbackFailed(fault)))
            raise

    def _fail(self, failed: Failed) -> None:
        self._notify(RankRaised(self.processes[0], failed))

    def _handle(self, message: FromIncarnation) -> None:
        if isinstance(message, IncarnationEnded):
            self._note_end(message)
            return
        if isinstance(message, IncarnationProgress):
            self._note_progress(message)
            return
        process = self.processes[message.rank]
        match message:
            case RankStarted():
                process.pid, process.place = message.pid, message.place
            case RankReported():
                process.reported = True
                self._orders.reported(read_report(message.rank, message.report))
                self._notify(RankReady(process, message.report))
            case RankAnswered():
                self._notify(RankReplied(process, message.number, message.reply))
            case RankError():
                self._notify(RankRaised(process, Failed(message.error, message.text)))
            case RankFault():
                self._notify(ProtocolViolated(process, message.text))
            case RankEnded():
                process.ended = message.epitaph
                self._notify(RankExited(process))
            case RankLine():
                process.last_lines.append(message.text)
                self._log(message.rank, message.stream, message.text)

    def _note_progress(self, message: IncarnationProgress) -> None:
        self.culprit = None if message.culprit < 0 else message.culprit
        late = time.monotonic_ns() - message.now  # of another host's clock
        for told in message.ranks:
            process = self.processes[told.rank]
            process.stopped = told.stopped
            entered_at = told.progress.entered_at + late
            process.progress = msgspec.structs.replace(told.progress, entered_at=entered_at)

    def _note_end(self, message: IncarnationEnded) -> None:
        stuck = [self.processes[rank] for rank in message.stuck]
        if self._finished is None or self.gone:
            return
        if stuck:
            self._finished(stuck)
        else:
            self.gone = True
            self._free(self._finished)

    def _free(self, finished: Callable[[Sequence[SupervisedProcess]], None]) -> None:
        self._notify.drop()
        self.memory.close()
        self._released(self)
        finished(())

    def _tell(self, message: ToAgent) -> None:
        self._send(message, ())
