"""Open requests of a connected program: sent to the models, and answered when they have ended."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from ...comm.errors import Closed, Draining, RankmeshError, error_parts
from ...comm.serving.caller_slots import NO_SLOT
from ...comm.serving.tensor_arena import OwnedArena
from ..event_loop.loop import EventLoopThread
from ..requests.loaded_versions import NotLoaded
from ..requests.request import CallOutcome, Request
from ..scheduling.request_client import RequestClient
from .granted_rooms import GrantedRooms, Misuse
from .messages import Answered, Declined, EndpointMessage, SentRequest
from .offered_models import OfferedModels
from .output_places import PlacedAnswer


class _Open(NamedTuple):
    """A request that has not ended, and the client of its model."""

    client: RequestClient
    request: Request


class OpenRequests:
    """The requests of one program; for the thread of the event loop."""

    def __init__(
        self,
        models: OfferedModels,
        rooms: GrantedRooms,
        arena: OwnedArena,
        loop: EventLoopThread,
        reply: Callable[[EndpointMessage], None],
    ) -> None:
        """`reply` takes the answers, each when its request has ended."""
        self._models = models
        self._rooms = rooms
        self._arena = arena
        self._loop = loop
        self._reply = reply
        self._open: dict[int, _Open] = {}
        self._ended: deque[tuple[int, CallOutcome]] = deque()
        self._announced = False
        self._answers: dict[int, PlacedAnswer] = {}

    def send(self, call: SentRequest) -> None:
        """Send a request to its model. Raises Misuse."""
        if call.number in self._open or call.number in self._answers:
            raise Misuse(f"got the request {call.number} twice")
        if call.timeout is not None and not 0 <= call.timeout < math.inf:
            raise Misuse(f"got the timeout {call.timeout}, expected seconds")
        try:
            self._open[call.number] = self._sent(call)
        except (RankmeshError, MemoryError) as error:
            self._decline(call.number, error)

    def cancel(self, number: int) -> None:
        """Drop a request, which may have ended; its answer is not sent."""
        found = self._open.pop(number, None)
        if found is not None:
            found.client.abandon(found.request)

    def forget(self, number: int) -> None:
        """Free the memory of an answer."""
        self._answers.pop(number, None)

    def close(self) -> None:
        """Drop all requests and answers: the program is gone."""
        for number in list(self._open):
            self.cancel(number)
        self._answers.clear()

    def _sent(self, call: SentRequest) -> _Open:
        """The request; where its version takes none any more, and the program has not named one,
        that of the current version.
        """
        version: int | None = call.version
        while True:
            client = self._models.client(call.model, version)
            inputs = self._rooms.inputs(client.interface.inputs, call.offset, call.shapes)
            note = partial(self._note, call.number)
            try:
                request = client.submit_at(
                    NO_SLOT, note, inputs, call.timeout, call.priority, call.every_rank, packed=True
                )
            except (Draining, Closed):
                current = self._models.client(call.model, None)
                alike = current.interface.inputs.specs == client.interface.inputs.specs
                if call.named or current is client or not alike:
                    raise
                version = None
                continue
            return _Open(client, request)

    def _note(self, number: int, outcome: CallOutcome) -> None:
        """A request has ended; in any thread."""
        self._ended.append((number, outcome))
        if not self._announced:
            self._announced = True
            self._loop.call_soon(self._answer)

    def _answer(self) -> None:
        self._announced = False  # first: what is added from here on announces itself
        while self._ended:
            number, outcome = self._ended.popleft()
            found = self._open.pop(number, None)
            if found is None:  # cancelled meanwhile
                continue
            try:
                placed = PlacedAnswer(outcome.result(), self._arena)
            except (RankmeshError, MemoryError) as error:
                self._decline(number, error)
                continue
            self._answers[number] = placed
            ran = found.request
            times = ran.begun, ran.replica, ran.together, ran.attempts, ran.steps
            self._reply(Answered(number, placed.outputs, *times))

    def _decline(self, number: int, error: Exception) -> None:
        self._reply(declined(number, error))


def declined(number: int, error: Exception) -> Declined:
    """The message of an error."""
    parts = error_parts(error)
    name = NotLoaded.__name__ if isinstance(error, NotLoaded) else parts.name
    return Declined(number, name, parts.text, getattr(error, "depth", 0))
