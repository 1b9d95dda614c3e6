"""Client of one model: gives its requests to the scheduler, and takes the answers of the ranks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

from ...comm.errors import RankmeshError
from ...comm.serving.caller_slots import CallerSlots
from ...comm.serving.orders import InvalidRankData
from ..event_loop.loop import EventLoopThread
from ..requests.request import Request
from .dispatcher import Dispatcher
from .model_interface import ModelInterface
from .request_client import RequestClient


class AnswersRanks(Protocol):
    """A replica, as far as a client needs it."""

    def look(self) -> None:
        """Look for answers, although no rank has rung; in the loop's thread."""


class ModelClient(RequestClient):
    """Requests to one model, from any thread."""

    def __init__(
        self,
        interface: ModelInterface,
        dispatcher: Dispatcher,
        replicas: Sequence[AnswersRanks],
        slots: CallerSlots,
        loop: EventLoopThread,
    ) -> None:
        """`slots` is where callers wait; the thread of `loop` may not."""
        super().__init__(
            interface,
            dispatcher.settings.timeout,
            dispatcher.scheduler.admission,
            dispatcher.counters,
            dispatcher.cancelled,
            slots,
            loop,
        )
        self._dispatcher = dispatcher
        self._scheduler = dispatcher.scheduler
        self._replicas = replicas

    def collect_at(self, slot: int) -> None:
        """See RequestClient.collect_at."""
        for index, batches, look in self._scheduler.collect_at(slot):
            if batches:
                self._dispatcher.batches_answered(index, batches)
            if look:
                self._loop.call_soon(self._replicas[index].look)

    def collect(self, request: Request) -> None:
        """See RequestClient.collect; completes the others of its batch as well."""
        index = request.replica
        if request.done or index < 0:
            return
        replica = self._replicas[index]
        try:
            found = self._scheduler.collect(request)
        except InvalidRankData:  # the loop's thread finds it as well, and ends the rank
            found = None
        if found is None:
            self._loop.call_soon(replica.look)
            return
        batch, more = found
        try:
            self._dispatcher.batches_answered(index, [batch])
        except BaseException:  # an interrupt: other callers may wait for the same batch
            act = partial(self._dispatcher.batches_answered, index, [batch])
            self._loop.call_soon(act)
            raise
        if more:  # a rank may have rung for another batch before
            self._loop.call_soon(replica.look)

    def _wait(self, request: Request) -> None:
        """See RequestClient._wait; where the answer comes over a network, this thread may take it
        from there.
        """
        inflight = self._scheduler.inflight_of(request)
        if inflight is None:
            self._slots.wait(request.slot)
        else:
            inflight.wait(request.slot)

    def _after_abandon(self, request: Request) -> None:
        if request.replica >= 0:
            self._scheduler.abandon(request)
            self._replicas[request.replica].look()
        self._dispatcher.dispatch()

    def _put(self, request: Request) -> None:
        try:
            refusals = self._scheduler.submit(request)
        except RankmeshError as error:
            self._dispatcher.counters.refused(error)
            raise
        if refusals:
            self._dispatcher.refuse(refusals)
