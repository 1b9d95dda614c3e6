"""Client of one model: makes requests of what callers give, and waits for the results."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Protocol, TypeVar

from ...comm.errors import RankmeshError
from ...comm.serving.caller_slots import NO_SLOT, CallerSlots
from ...comm.serving.orders import InvalidRankData
from ..event_loop.loop import EventLoopThread
from ..requests.inputs import Buffers, Inputs
from ..requests.request import CallOutcome, NotedOutcome, Request, RequestFuture, Result
from .dispatcher import Dispatcher
from .model_interface import ModelInterface

GivenInputs = Mapping[str, Any] | Sequence[Any]
"""The inputs of a request: by name, in the model's order, or Buffers."""

FutureT = TypeVar("FutureT", RequestFuture, CallOutcome, NotedOutcome)


class AnswersRanks(Protocol):
    """A replica, as far as a client needs it."""

    def look(self) -> None:
        """Look for answers, although no rank has rung; in the loop's thread."""


class ModelClient:
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
        self.interface = interface
        self.timeout = dispatcher.settings.timeout
        """Seconds of requests that do not say, None for no deadline."""

        self._dispatcher = dispatcher
        self._scheduler = dispatcher.scheduler
        self._replicas = replicas
        self._slots = slots
        self._loop = loop
        self._numbers = itertools.count(1)

    def call(
        self, given: GivenInputs, timeout: float | None, priority: int, every_rank: bool
    ) -> Result:
        """Run a request and wait for its result.

        The ranks wake this thread itself, which takes the answer from shared memory: that spares
        changes of threads.
        """
        self._loop.require_another("predict")
        slot = self._slots.take()
        try:
            if slot == NO_SLOT:
                return self._result(self.submit(given, timeout, priority, every_rank))
            request, future = self._request(given, timeout, priority, every_rank, CallOutcome, slot)
            return self._awaited(request, future)
        finally:
            self._slots.leave(slot)

    def submit(
        self, given: GivenInputs, timeout: float | None, priority: int, every_rank: bool
    ) -> Future[Result]:
        """Queue a request; `timeout` is in seconds. Raises InputError, QueueFull."""
        request, future = self._request(
            given, timeout, priority, every_rank, RequestFuture, NO_SLOT
        )
        self._queue(request)
        return future

    def buffers(self, shapes: Mapping[str, Sequence[int]]) -> Buffers:
        """Memory that ranks read, for the inputs of requests. Raises InputError, OutOfMemory."""
        specs = self.interface.inputs
        return Buffers(specs, specs.room(shapes))

    def submit_at(
        self,
        slot: int,
        note: Callable[[CallOutcome], None],
        given: GivenInputs | Inputs,
        timeout: float | None,
        priority: int,
        every_rank: bool = False,
    ) -> Request:
        """Queue a request of an event loop, which calls `collect_at` when the slot is notified.

        `note` is given the outcome when it is there, in any thread. Raises InputError, QueueFull.
        """
        kind = partial(NotedOutcome, note)
        request, _ = self._request(given, timeout, priority, every_rank, kind, slot)
        self._queue(request)
        return request

    def collect_at(self, slot: int) -> None:
        """Complete the requests at a slot that the ranks have answered."""
        for index, replica in enumerate(self._replicas):
            try:
                batches, look = self._scheduler.collect_at(index, slot)
            except InvalidRankData:  # the loop's thread finds it as well, and ends the rank
                batches, look = [], True
            for batch, answers, _ in batches:
                self._dispatcher.batch_answered(index, batch, answers)
            if look:
                self._loop.call_soon(replica.look)

    def _result(self, future: Future[Result]) -> Result:
        """The result of a future; cancels it at an interrupt."""
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _awaited(self, request: Request, future: CallOutcome) -> Result:
        """The result of a request whose caller is this thread."""
        slot = request.slot
        try:
            self._put(request)
            while not future.done():
                self._slots.wait(slot)
                future.awake = True
                self._collect(request)
                future.awake = False
            return future.result()
        except BaseException:
            self.abandon(request)
            raise

    def _collect(self, request: Request) -> None:
        """Complete the futures of a request's batch, if the ranks have answered it."""
        index = request.replica
        if request.future.done() or index < 0:
            return
        replica = self._replicas[index]
        try:
            found = self._scheduler.collect(request)
        except InvalidRankData:  # the loop's thread finds it as well, and ends the rank
            found = None
        if found is None:
            self._loop.call_soon(replica.look)
            return
        batch, answers, more = found
        try:
            self._dispatcher.batch_answered(index, batch, answers)
        except BaseException:  # an interrupt: other callers may wait for the same batch
            act = partial(self._dispatcher.batch_answered, index, batch, answers)
            self._loop.call_soon(act)
            raise
        if more:  # a rank may have rung for another batch before
            self._loop.call_soon(replica.look)

    def abandon(self, request: Request) -> None:
        """Drop a request after an error, an interrupt or a cancellation: its caller waits no
        more.
        """
        request.future.cancel()
        self._loop.call_soon(partial(self._after_abandon, request))

    def _after_abandon(self, request: Request) -> None:
        if request.replica >= 0:
            self._scheduler.abandon(request)
            self._replicas[request.replica].look()
        self._dispatcher.dispatch()

    def _request(
        self,
        given: GivenInputs | Inputs,
        timeout: float | None,
        priority: int,
        every_rank: bool,
        kind_of_future: Callable[[int, Callable[[int], None]], FutureT],
        slot: int,
    ) -> tuple[Request, FutureT]:
        dispatcher = self._dispatcher
        interface = self.interface
        try:
            self._scheduler.admission.require_open()
            now = time.monotonic()
            if isinstance(given, Inputs):
                inputs = given
            elif type(given) is not tuple and isinstance(given, Buffers):  # quicker in this order
                inputs = given.taken(interface.inputs)
            else:
                inputs = interface.inputs.copied(given)
            kind, rows = interface.kind(inputs, every_rank)
        except RankmeshError as error:
            dispatcher.counters.refused(error)
            raise
        number = next(self._numbers)
        future = kind_of_future(number, dispatcher.cancelled)
        request = Request(
            number,
            inputs,
            future,
            now,
            priority,
            None if timeout is None else now + timeout,
            kind=kind,
            rows=rows,
            slot=slot,
            every_rank=every_rank,
        )
        return request, future

    def _queue(self, request: Request) -> None:
        """Put a request, and abandon it after an error or an interrupt."""
        try:
            self._put(request)
        except BaseException:
            self.abandon(request)
            raise

    def _put(self, request: Request) -> None:
        try:
            refusals = self._scheduler.submit(request)
        except RankmeshError as error:
            self._dispatcher.counters.refused(error)
            raise
        self._dispatcher.refuse(refusals)
