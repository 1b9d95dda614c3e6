"""Remote ranks: the processes of an incarnation on the hosts of agents, mostly of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from ...comm.agents.messages import ExchangeAnswer, WriteStacks
from ...comm.job_memory.progress import ProgressSnapshot
from ...comm.processes.event_callback import EventCallback
from ...comm.processes.event_loop import Action, Timer
from ...comm.processes.output import Log
from ...comm.processes.process_ender import ASKED, Schedule
from ...comm.processes.supervised_process import SupervisedProcess
from ...comm.rendezvous.relay import Relay
from ...comm.request_memory.owned_arena import Region
from ...comm.serving.caller_slots import CallerSlots
from ...comm.serving.orders import InvalidRankData, ServeJob
from ...comm.transport.frame_stream import LONGEST
from ..event_loop.loop import EventLoopThread
from ..replica.control import PlacedRequest
from ..replica.order_memory import OrderMemory
from ..replica.supervised_ranks import SupervisedEvent
from .remote_orders import RemoteOrders
from .remote_part import RemotePart
from .remote_ring import OrderOutlet, RemoteRing
from .spread_orders import SpreadOrders

_LARGEST = LONGEST // 2
"""Bytes of the payloads of all ranks, which are one message."""

_STACKS = 1.0
"""Seconds for a rank to write the stacks of its threads, and for them to come here."""


class RemoteRanks:
    """See SupervisedRanks. Exchanges of ranks on several hosts are collected here."""

    def __init__(
        self,
        parts: Sequence[RemotePart],
        depth: int,
        address: str,
        slots: CallerSlots,
        loop: EventLoopThread,
        notify: Callable[[SupervisedEvent], None],
        log: Log,
        released: Callable[[], None],
    ) -> None:
        """`address` is that of rank 0's host, for the ranks of others. `released` is called when
        all ranks are gone.

        Raises OSError where there is no memory.
        """
        self.parts = parts
        self._part_of = {rank: part for part in parts for rank in part.processes}
        ranks = range(len(self._part_of))
        self.processes = [self._part_of[rank].processes[rank] for rank in ranks]
        by_rank = {spec.rank.rank: spec for part in parts for spec in part.specs}
        self.specs = [by_rank[rank] for rank in ranks]
        self.notify = EventCallback(notify, loop)
        self.guarded = self.notify.guarded
        self.log = log
        self._address = address if len(parts) > 1 else ""
        self._released = released
        self._finished: Callable[[Sequence[SupervisedProcess]], None] | None = None
        size = len(self.specs)
        self._relay = Relay(size, 0.0)  # without a deadline: that of the whole start counts
        self.memory = OrderMemory(size, depth, slots, partial(RemoteRing, outlet=self._outlet()))
        for part in parts:
            part.orders.begin(self.memory.ring)

    def prepare(self, depth: int) -> None:
        """Have the agents lay out memory for `depth` orders."""
        for part in self.parts:
            part.prepare(self, depth)

    @property
    def awaited(self) -> list[int]:
        """See SupervisedRanks.awaited."""
        if self._relay.pending:
            return self._relay.late()
        return [one.rank.rank for one in self.processes if not one.reported]

    @property
    def fetching(self) -> bool:
        """See SupervisedRanks.fetching."""
        return any(part.fetching for part in self.parts)

    @property
    def culprit(self) -> int | None:
        """See SupervisedRanks.culprit."""
        return next((part.culprit for part in self.parts if part.culprit is not None), None)

    @property
    def host_lost(self) -> bool:
        """See SupervisedRanks.host_lost."""
        return any(part.lost for part in self.parts)

    @property
    def gone(self) -> bool:
        """See SupervisedRanks.gone."""
        return all(part.gone for part in self.parts)

    def start(self, rank: int, job: ServeJob, weights: Sequence[Region], timeout: float) -> None:
        """See SupervisedRanks.start."""
        job = msgspec.structs.replace(job, address=self._address)
        self._part_of[rank].start(rank, job, weights, timeout)

    def call_later(self, seconds: float, action: Action) -> Timer:
        """See SupervisedRanks.call_later."""
        return self.notify.call_later(seconds, action)

    def progress(self, rank: int) -> ProgressSnapshot:
        """See SupervisedRanks.progress."""
        return self._part_of[rank].processes[rank].progress

    def carried(self, number: int) -> object:
        """See SupervisedRanks.carried."""
        return [part.orders.carried(number) for part in self.parts]

    def ask(self, rank: int, number: int, request: PlacedRequest) -> None:
        """See SupervisedRanks.ask."""
        self._part_of[rank].control.ask(rank, number, request)

    def request_stacks(self, rank: int, then: Action) -> Timer:
        """See SupervisedRanks.request_stacks."""
        part = self._part_of[rank]
        part.tell(WriteStacks(part.incarnation, rank))
        return self.call_later(_STACKS, then)

    def end(
        self, schedule: Schedule, finished: Callable[[Sequence[SupervisedProcess]], None]
    ) -> None:
        """See SupervisedRanks.end."""
        self._finished = finished
        for part in self.parts:
            part.end(schedule is ASKED)

    def exchange(self, rank: int, payload: bytes) -> None:
        """See WholeIncarnation.exchange."""
        if rank not in self._relay.late():
            raise InvalidRankData(rank, "came to an exchange twice")
        payloads = self._relay.give(rank, payload)
        if payloads is None:
            return
        size = sum(map(len, payloads))
        if size > _LARGEST:
            text = f"and the other ranks sent {size} bytes for an exchange, more than {_LARGEST}"
            raise InvalidRankData(rank, text)
        for part in self.parts:
            part.tell(ExchangeAnswer(part.incarnation, payloads))

    def part_ended(self, stuck: Sequence[SupervisedProcess]) -> None:
        """See WholeIncarnation.part_ended."""
        if self._finished is None:  # its end has not been asked for
            return
        if stuck:
            self._finished(stuck)
        elif self.gone:
            finished, self._finished = self._finished, None  # which refers to this object
            self.notify.drop()
            self.memory.close()
            self._released()
            finished(())

    def part_kept(self) -> None:
        """See WholeIncarnation.part_kept."""
        if self._finished is not None:
            self._finished(())

    def _outlet(self) -> OrderOutlet:
        if len(self.parts) == 1:
            return self.parts[0].orders
        orders: dict[int, RemoteOrders] = {
            rank: part.orders for rank, part in self._part_of.items()
        }
        return SpreadOrders(orders)
