"""Open requests of a connected program: sent to the models, and answered when they have ended."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

from ...comm.errors import Closed, Draining, RankmeshError, error_parts
from ...comm.request_memory.owned_arena import OwnedArena
from ...comm.serving.caller_slots import NO_SLOT
from ..event_loop.loop import EventLoopThread
from ..requests.loaded_versions import NotLoaded
from ..requests.request import AnyResult, Request
from ..scheduling.request_client import RequestClient
from .granted_rooms import GrantedRooms, Misuse
from .messages import Answered, Declined, EndpointMessage, SentRequest
from .offered_models import OfferedModels
from .output_places import PlacedAnswer


class _ProgramRequest(Request):
    """A request of a connected program, by whose `number` it is known there."""

    awake = True
    packed = True

    def __init__(
        self, number: int, client: RequestClient, ended: Callable[[_ProgramRequest], None]
    ) -> None:
        """`ended` is told its end, in any thread."""
        self.number = number
        self.client = client
        self._ended = ended

    def set_result(self, result: AnyResult) -> None:
        """See Request.set_result."""
        super().set_result(result)
        self._ended(self)

    def set_exception(self, error: BaseException) -> None:
        """See Request.set_exception."""
        super().set_exception(error)
        self._ended(self)


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
        self._open: dict[int, _ProgramRequest] = {}
        self._ended: deque[_ProgramRequest] = deque()
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
            found.client.abandon(found)

    def forget(self, number: int) -> None:
        """Free the memory of an answer."""
        self._answers.pop(number, None)

    def close(self) -> None:
        """Drop all requests and answers: the program is gone."""
        for number in list(self._open):
            self.cancel(number)
        self._answers.clear()

    def _sent(self, call: SentRequest) -> _ProgramRequest:
        """The request; where its version takes none any more, and the program has not named one,
        that of the current version.
        """
        version: int | None = call.version
        while True:
            client = self._models.client(call.model, version)
            inputs = self._rooms.inputs(client.interface.inputs, call.offset, call.shapes)
            request = _ProgramRequest(call.number, client, self._note)
            try:
                client.submit_at(
                    NO_SLOT, request, inputs, call.timeout, call.priority, call.every_rank
                )
            except (Draining, Closed):
                current = self._models.client(call.model, None)
                alike = current.interface.inputs.specs == client.interface.inputs.specs
                if call.named or current is client or not alike:
                    raise
                version = None
                continue
            return request

    def _note(self, request: _ProgramRequest) -> None:
        """A request has ended; in any thread."""
        self._ended.append(request)
        if not self._announced:
            self._announced = True
            self._loop.call_soon(self._answer)

    def _answer(self) -> None:
        self._announced = False  # first: what is added from here on announces itself
        while self._ended:
            request = self._ended.popleft()
            number = request.number
            if self._open.pop(number, None) is None:  # cancelled meanwhile
                continue
            try:
                placed = PlacedAnswer(request.result(), self._arena)
            except (RankmeshError, MemoryError) as error:
                self._decline(number, error)
                continue
            self._answers[number] = placed
            ran = request.begun, request.replica, request.together, request.attempts, request.steps
            self._reply(Answered(number, placed.outputs, *ran))

    def _decline(self, number: int, error: Exception) -> None:
        self._reply(declined(number, error))


def declined(number: int, error: Exception) -> Declined:
    """The message of an error."""
    parts = error_parts(error)
    name = NotLoaded.__name__ if isinstance(error, NotLoaded) else parts.name
    return Declined(number, name, parts.text, getattr(error, "depth", 0))
