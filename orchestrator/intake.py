"""Where callers hand in requests of one model, and wait for the answers."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from ..comm.errors import RankmeshError
from ..comm.serving.seats import NO_SEAT, Seats
from .buffers import Buffers
from .dispatch import Dispatcher
from .loop import Loop
from .request import Outcome, Promise, Request

Given = Mapping[str, Any] | Sequence[Any]
"""A request's inputs: by name, in the model's order, or Buffers."""


class Intake:
    """Makes requests of what callers give, for any thread."""

    def __init__(self, dispatcher: Dispatcher, seats: Seats, loop: Loop) -> None:
        """`dispatcher` has them answered, `seats` is where callers wait, `loop` whose thread may not."""
        self.dispatcher, self._seats, self._loop = dispatcher, seats, loop
        self._number = itertools.count(1)

    def call(self, given: Given, timeout: float | None, priority: int, every: bool) -> Any:
        """As `submit`, and wait for the result.

        The ranks wake this thread itself, which takes the answer from shared memory: that spares changes of threads.
        """
        self._loop.require_another("predict")
        seat = self._seats.take()
        try:
            kind_of_future = Promise if seat == NO_SEAT else Outcome
            return self._awaited(self._request(given, timeout, priority, every, kind_of_future, seat))
        finally:
            self._seats.leave(seat)

    def submit(self, given: Given, timeout: float | None, priority: int, every: bool) -> Future[Any]:
        """Queue a request; its result is a dict from output name to array, or with `every` one per rank.

        `timeout` is in seconds. Raises InputError, QueueFull.
        """
        request = self._request(given, timeout, priority, every, Promise, NO_SEAT)
        assert isinstance(request.future, Promise)
        try:
            self._put(request)
        except BaseException:
            self._forsake(request)
            raise
        return request.future

    def _awaited(self, request: Request) -> Any:
        """The result of a request, whose caller this thread is."""
        seat, future = request.seat, request.future
        try:
            self._put(request)
            while isinstance(future, Outcome) and not future.done():
                self._seats.wait(seat)
                future.awake = True
                self.dispatcher.take_answer(request)
                future.awake = False
            return future.result()
        except BaseException:
            self._forsake(request)
            raise

    def _forsake(self, request: Request) -> None:
        """After an error, or an interrupt: nobody waits for the answer any more."""
        request.future.cancel()
        self._loop.call_soon(partial(self.dispatcher.forsake, request))

    def _request(self, given: Given, timeout: float | None, priority: int, every: bool,
                 kind_of_future: type[Promise] | type[Outcome], seat: int) -> Request:
        dispatcher = self.dispatcher
        try:
            dispatcher.standing.require_open()
            now, inputs = time.monotonic(), dispatcher.inputs
            if type(given) is not tuple and isinstance(given, Buffers):  # to ask only the latter takes much longer
                taken = given.taken(inputs)
            else:
                taken = inputs.copied(given)
            kind, rows = dispatcher.assembly.kind(taken, every)
        except RankmeshError as error:
            dispatcher.counters.refused(error)
            raise
        number = next(self._number)
        return Request(number, (taken, every), kind_of_future(number, dispatcher.cancelled), now, priority,
                       None if timeout is None else now + timeout, kind=kind, rows=rows, seat=seat)

    def _put(self, request: Request) -> None:
        try:
            self.dispatcher.put(request)
        except RankmeshError as error:
            self.dispatcher.counters.refused(error)
            raise
