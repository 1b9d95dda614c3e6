"""Hosted incarnation: ranks that an agent has started, and what it tells the orchestrator of."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeAlias

import msgspec

from ...comm.agents.messages import (
    EndIncarnation,
    ExchangeAnswer,
    FromAgent,
    IncarnationEnded,
    IncarnationProgress,
    ModelWish,
    OfferModel,
    PrepareIncarnation,
    RankEnded,
    RankError,
    RankExchange,
    RankLine,
    RankProgress,
    RankReported,
    RankStarted,
    StartRank,
    WriteStacks,
)
from ...comm.agents.order_messages import (
    GrantRoom,
    OtherOrder,
    RankFault,
    ReleaseOrder,
    RunOrder,
)
from ...comm.agents.weight_messages import AskRank, RankAnswered
from ...comm.errors import OutOfMemory
from ...comm.processes.event_loop import Timer
from ...comm.processes.process_ender import ASKED, AT_ONCE, Schedule
from ...comm.processes.rank_events import (
    CallbackFailed,
    ProtocolViolated,
    RankExited,
    RankRaised,
    RankReady,
    RankReplied,
)
from ...comm.processes.supervised_process import SupervisedProcess
from ...comm.rendezvous.relay import ForwardingRelay
from ...comm.request_memory.owned_arena import Region
from ...comm.serving.orders import InvalidRankData
from ...comm.serving.weights import WeightReply, encode_weight_reply
from ...comm.transfer.messages import Chunk, Withheld
from ..replica.control import read_report
from ..replica.local_ranks import LocalRanks
from ..replica.supervised_ranks import SupervisedEvent
from .agent_parts import AgentParts
from .hosted_orders import HostedOrders, TensorSource
from .model_fetch import ModelFetch

_PROGRESS = 0.1
"""Seconds between looks at the progress of the ranks."""

_Send: TypeAlias = Callable[[FromAgent, Sequence[memoryview]], None]


class HostedIncarnation:
    """The ranks of one incarnation; for the loop's thread, but for orders and their answers."""

    def __init__(
        self,
        message: PrepareIncarnation,
        parts: AgentParts,
        send: _Send,
    ) -> None:
        """Lay out memory; OSError where there is none. No process is started yet."""
        self.number = number = message.incarnation

        def forward(rank: int, payload: bytes) -> None:  # refers to no memory that is to be freed
            send(RankExchange(number, rank, payload), ())

        first = message.ranks[0].rank
        self._first = first.rank
        self._parts = parts
        self._send = send
        self._ranks = LocalRanks(
            message.ranks,
            message.depth,
            parts.slots,
            parts.loop,
            self._handle,
            lambda rank, stream, line: send(RankLine(number, rank, stream, line), ()),
            None
            if first.local_size == first.world_size
            else ForwardingRelay(first.world_size, forward),
        )
        ranks = [spec.rank.rank for spec in message.ranks]
        ring = self._ranks.memory.ring
        self._orders = HostedOrders(self.number, ranks, ring, parts.arena, parts.slot, send)
        self._told: dict[int, RankProgress] = {}
        self._timer: Timer | None = None
        self._ending = False
        self._fetch: ModelFetch | None = None
        self._pattern = ""
        self._starts: list[StartRank] = []
        self._written: dict[tuple[int, int], Sequence[Region]] = {}
        """By rank and number of a request: the weights that the rank writes for it."""

    @property
    def gone(self) -> bool:
        """Whether no process is left."""
        return self._ranks.gone

    def begin(self) -> None:
        """Wait for answers, and tell of progress."""
        self._parts.loop.watch(self._ranks.memory.bell, self._ranks.guarded(self._note_bell))
        self._tick()

    def order(
        self,
        message: RunOrder | OtherOrder | GrantRoom | ReleaseOrder,
        source: TensorSource,
    ) -> None:
        """Pass an order on, or what belongs to one; in the thread that receives messages."""
        match message:
            case RunOrder():
                self._orders.run(message, source)
            case OtherOrder():
                self._orders.give(message)
            case GrantRoom():
                self._orders.grant(message)
            case ReleaseOrder():
                self._ranks.memory.ring.release(message.number)

    def take_answers(self) -> None:
        """Send the answers that have come; in the thread that receives messages."""
        try:
            self._orders.answer()
        except Exception as error:
            self._parts.loop.call_soon(partial(self._handle, CallbackFailed(error)))

    def answer(self, message: Chunk | Withheld) -> None:
        """Pass on a part of a file that was wanted; in the thread that receives messages."""
        fetch = self._fetch
        if fetch is not None:
            fetch.answer(message)

    def handle(
        self,
        message: OfferModel | StartRank | EndIncarnation | AskRank | WriteStacks | ExchangeAnswer,
    ) -> None:
        """Do what the orchestrator asks."""
        if isinstance(message, EndIncarnation):
            self.end(ASKED if message.asked else AT_ONCE)
        elif not self._ending:
            self._ranks.guarded(lambda: self._carry_out(message))()

    def end(self, schedule: Schedule) -> None:
        """End the processes."""
        if self._ending:
            return
        self._ending = True
        if self._timer is not None:
            self._timer.cancel()
        if self._fetch is not None:
            self._fetch.close()
            self._fetch = None  # it refers to this object, whose memory is to be freed
        self._parts.loop.forget(self._ranks.memory.bell)
        self._orders.close()
        self._ranks.end(schedule, self._finish)

    def _carry_out(
        self, message: OfferModel | StartRank | AskRank | WriteStacks | ExchangeAnswer
    ) -> None:
        match message:
            case OfferModel():
                self._have(message)
            case StartRank() if self._fetch is not None and not self._pattern:
                self._starts.append(message)
            case StartRank():
                self._start(message)
            case AskRank():
                self._ask(message)
            case WriteStacks():
                self._ranks.request_stacks(message.rank, lambda: None)
            case ExchangeAnswer():
                self._ranks.answer_exchange(message.payloads)

    def _ask(self, message: AskRank) -> None:
        rank, number = message.rank, message.number
        try:
            request = self._parts.updated.request(message)
        except OutOfMemory as error:
            failed = WeightReply(error="OutOfMemory", text=str(error))
            self._answer(rank, number, encode_weight_reply(failed))
            return
        if request.writes:
            self._written[rank, number] = request.regions
        self._ranks.ask(rank, number, request)

    def _answer(self, rank: int, number: int, reply: bytes) -> None:
        """Send a rank's reply, and the weights that it has written."""
        written = [region.contents() for region in self._written.pop((rank, number), ())]
        self._send(RankAnswered(self.number, rank, number, reply), written)

    def _have(self, message: OfferModel) -> None:
        """Have the files of the ranks, which start afterwards."""

        def held(pattern: str) -> None:
            self._parts.loop.call_soon(self._ranks.guarded(lambda: self._start_all(pattern)))

        self._fetch = ModelFetch(
            message.offer,
            message.folder,
            lambda wish: self._tell(ModelWish(self.number, wish)),
            held,
        )
        self._fetch.begin()

    def _start_all(self, pattern: str) -> None:
        self._pattern = pattern
        if not self._ending:
            for message in self._starts:
                self._start(message)

    def _start(self, message: StartRank) -> None:
        parts = self._parts
        try:
            given = parts.updated.job(message)
            job = msgspec.structs.replace(
                given,
                pattern=self._pattern or given.pattern,
                tensors=parts.arena.fd if parts.shared is None else parts.shared.file,
                kept=-1 if parts.shared is None else parts.shared.kept,
                updates=parts.weights.fd,
                seats=list(parts.slots.files),
                spare=parts.slots.spare,
                invitation=given.invitation and parts.addressed(given.invitation),
            )
            self._ranks.start(message.rank, job, (), message.timeout)
        except Exception as error:  # of any class: the orchestrator has to hear of it
            self._tell(RankError(self.number, message.rank, "RankFailed", str(error)))
            return
        process = self._ranks.process(message.rank)
        self._tell(RankStarted(self.number, message.rank, process.pid, process.place))

    def _handle(self, event: SupervisedEvent) -> None:
        match event:
            case RankReady(process, report):
                rank = process.rank.rank
                self._orders.reported(rank, read_report(rank, report))
                self._tell_progress([rank])
                self._tell(RankReported(self.number, rank, report))
            case RankReplied(process, number, reply):
                self._answer(process.rank.rank, number, reply)
            case RankRaised(process, failed):
                self._tell(RankError(self.number, process.rank.rank, failed.error, failed.text))
            case ProtocolViolated(process, text):
                self._tell(RankFault(self.number, process.rank.rank, text))
            case RankExited(process):
                self._orders.answer()
                self._tell_progress([process.rank.rank])
                self._tell(RankEnded(self.number, process.rank.rank, process.epitaph()))
            case CallbackFailed(InvalidRankData() as fault):
                self._tell(RankFault(self.number, fault.rank, str(fault)))
            case CallbackFailed(error):
                text = f"could not be watched any more: {type(error).__name__}: {error}"
                self._tell(RankFault(self.number, self._first, text))

    def _note_bell(self) -> None:
        self._ranks.memory.silence_bell()
        self._orders.answer()

    def _tick(self) -> None:
        self._tell_progress([process.rank.rank for process in self._ranks.processes])
        self._timer = self._ranks.call_later(_PROGRESS, self._tick)

    def _tell_progress(self, ranks: Iterable[int]) -> None:
        """Tell of the progress of those ranks that have made some."""
        changed = []
        for rank in ranks:
            stopped = self._ranks.process(rank).stopped
            now = RankProgress(rank, self._ranks.progress(rank), stopped)
            if self._told.get(rank) != now:
                self._told[rank] = now
                changed.append(now)
        if changed:
            culprit = -1 if self._ranks.culprit is None else self._ranks.culprit
            self._tell(IncarnationProgress(self.number, culprit, time.monotonic_ns(), changed))

    def _finish(self, stuck: Sequence[SupervisedProcess]) -> None:
        self._tell(IncarnationEnded(self.number, [process.rank.rank for process in stuck]))

    def _tell(self, message: FromAgent) -> None:
        self._send(message, ())
