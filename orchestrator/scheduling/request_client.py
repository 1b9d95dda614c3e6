"""Client of a model or chain: makes requests of what callers give, and waits for the results."""

from __future__ import annotations

import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from ...comm.arrays import Array
from ...comm.errors import RankmeshError
from ...comm.serving.caller_slots import NO_SLOT, CallerSlots
from ..event_loop.loop import EventLoopThread
from ..requests.inputs import Buffers
from ..requests.metrics import RequestCounters
from ..requests.request import Request, RequestFuture, Result, SubmittedRequest
from ..requests.request_inputs import Inputs
from .admission import Admission
from .model_interface import ModelInterface

GivenInputs = Mapping[str, Any] | Sequence[Any]
"""The inputs of a request: by name, in the model's order, or Buffers."""


class RequestClient(ABC):
    """Requests to one model or chain, from any thread. A subclass queues and answers them."""

    def __init__(
        self,
        interface: ModelInterface,
        timeout: float | None,
        admission: Admission,
        counters: RequestCounters,
        cancelled: Callable[[int], None],
        slots: CallerSlots,
        loop: EventLoopThread,
    ) -> None:
        """`slots` is where callers wait; the thread of `loop` may not. `cancelled` is told the
        number of a request that its caller has cancelled.
        """
        self.interface = interface
        self.timeout = timeout
        """Seconds of requests that do not say, None for no deadline."""

        self._admission = admission
        self._counters = counters
        self._cancelled = cancelled
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
            request = Request()
            self._fill(request, slot, given, timeout, priority, every_rank)
            return self._awaited(request)
        finally:
            self._slots.leave(slot)

    def submit(
        self, given: GivenInputs, timeout: float | None, priority: int, every_rank: bool
    ) -> Future[Result]:
        """Queue a request; `timeout` is in seconds. Raises InputError, QueueFull."""
        request = SubmittedRequest()
        self._fill(request, NO_SLOT, given, timeout, priority, every_rank)
        request.future = RequestFuture(request.id, self._cancelled)
        self._queue(request)
        return request.future

    def buffers(self, shapes: Mapping[str, Sequence[int]]) -> Buffers:
        """Memory that ranks read, for the inputs of requests. Raises InputError, OutOfMemory."""
        specs = self.interface.inputs
        return Buffers(specs, specs.room(shapes))

    def submit_at(
        self,
        slot: int,
        request: Request,
        given: GivenInputs | Inputs,
        timeout: float | None,
        priority: int,
        every_rank: bool = False,
    ) -> None:
        """Queue a request of an event loop, which calls `collect_at` when the slot is notified.

        Raises InputError, QueueFull.
        """
        self._fill(request, slot, given, timeout, priority, every_rank)
        self._queue(request)

    def submit_step(self, given: Mapping[str, Array], whole: Request, request: Request) -> None:
        """Queue a step of `whole`, a request of a chain: with its deadline, priority and slot.

        Arrays that lie in the arena are handed on where they are. Raises InputError, QueueFull.
        """
        try:
            request.inputs = inputs = self.interface.inputs.handed_on(given)
            request.kind, request.rows = self.interface.kind(inputs, False)
        except RankmeshError as error:
            self._counters.refused(error)
            raise
        request.id = next(self._numbers)
        request.submitted = time.monotonic()
        request.priority, request.deadline = whole.priority, whole.deadline
        request.slot = whole.slot
        request.step = request.packed = True
        self._queue(request)

    def abandon(self, request: Request) -> None:
        """Drop a request after an error, an interrupt or a cancellation: its caller waits no
        more.
        """
        if request.drop():
            self._cancelled(request.id)
        self._loop.call_soon(partial(self._after_abandon, request))

    def _result(self, future: Future[Result]) -> Result:
        """The result of a future; cancels it at an interrupt."""
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _awaited(self, request: Request) -> Result:
        """The result of a request whose caller is this thread."""
        try:
            self._put(request)
            while not request.done:
                self._wait(request)
                request.awake = True
                self.collect(request)
                request.awake = False
            return request.result()
        except BaseException:
            self.abandon(request)
            raise

    def _fill(
        self,
        request: Request,
        slot: int,
        given: GivenInputs | Inputs,
        timeout: float | None,
        priority: int,
        every_rank: bool,
    ) -> None:
        """Make a request of what a caller gives."""
        interface = self.interface
        try:
            self._admission.require_open()
            now = time.monotonic()
            if type(given) is tuple:  # first: to ask for an abstract class takes longer
                inputs = interface.inputs.copied(given)
            elif isinstance(given, Inputs):
                inputs = given
            elif isinstance(given, Buffers):
                inputs = given.taken(interface.inputs)
            else:
                inputs = interface.inputs.copied(given)
            if interface.axes is not None:
                request.kind, request.rows = interface.kind(inputs, every_rank)
        except RankmeshError as error:
            self._counters.refused(error)
            raise
        request.id = next(self._numbers)
        request.inputs = inputs
        request.submitted = now
        request.slot = slot
        request.priority = priority
        request.every_rank = every_rank
        if timeout is not None:
            request.deadline = now + timeout

    def _queue(self, request: Request) -> None:
        """Put a request, and abandon it after an error or an interrupt."""
        try:
            self._put(request)
        except BaseException:
            self.abandon(request)
            raise

    def _wait(self, request: Request) -> None:
        """Wait for a notification at the slot of a request. It may be late."""
        self._slots.wait(request.slot)

    @abstractmethod
    def collect_at(self, slot: int) -> None:
        """Complete the requests at a slot that the ranks have answered."""

    @abstractmethod
    def collect(self, request: Request) -> None:
        """Complete a request whose slot was notified, if the ranks have answered it."""

    @abstractmethod
    def _put(self, request: Request) -> None:
        """Queue a request. Raises QueueFull, Draining, Closed."""

    @abstractmethod
    def _after_abandon(self, request: Request) -> None:
        """Tidy up behind a request that was abandoned; in the loop's thread."""
