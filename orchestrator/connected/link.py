"""Link of a connected program: sends messages from any thread, and hands out the answers."""

from __future__ import annotations

import itertools
import os
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, TypeVar

from ...comm.errors import Closed, DeadlineExceeded, QueueFull, RankmeshError, error_named
from ...comm.request_memory.tensor_arena import TensorArena
from ...comm.transport.message_stream import ChannelClosed, MessageStream
from ..endpoint.messages import (
    Answered,
    Cancel,
    Declined,
    EndpointMessage,
    Forget,
    Greeting,
    ModelCard,
    Models,
    ProgramMessage,
    Welcome,
    decode_endpoint,
    encode,
)
from ..requests.loaded_versions import NotLoaded

_GRACE = 2.0
"""Seconds after its deadline until a request counts as lost: its orchestrator has stopped."""

Told = EndpointMessage | RankmeshError
Tell = Callable[[Told], None]


MessageT = TypeVar("MessageT", bound=EndpointMessage)


class _Expected(NamedTuple):
    """One answer that is to come: its receiver, and its deadline (None: none).

    `at_once`: also while other answers are told, for what may wait in the driver's thread.
    """

    tell: Tell
    deadline: float | None
    at_once: bool


class EndpointLink:
    """Connection to an orchestrator. Its driver calls `receive` when the socket is readable and
    `flush` when it has room, looks after it when the bell has rung, and calls `expire` each second.
    """

    def __init__(self, sock: socket.socket, owner: str) -> None:
        """`owner` is the orchestrator in texts. The socket has a timeout until `welcome`."""
        self.owner = owner
        self.bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.models: tuple[ModelCard, ...] = ()
        self.ended = False
        """Whether the driver has nothing more to do."""

        self.full = False
        """Whether messages wait until the socket has room."""

        self._socket = sock
        self._stream: MessageStream[ProgramMessage, EndpointMessage] = MessageStream(
            sock, encode, decode_endpoint
        )
        self._sending = threading.Lock()
        self._numbers = itertools.count(1)
        self._expected: dict[int, _Expected] = {}
        self._forgotten: deque[int] = deque()
        self._told: deque[tuple[Tell, Told]] = deque()
        self._telling = False
        self._rung = False
        self._reason = ""

    def __del__(self) -> None:
        os.close(self.bell)  # as late as this: the memory of answers rings it until then
        self.ended = True

    def fileno(self) -> int:
        """The descriptor of the socket."""
        return self._stream.fileno()

    def welcome(self, release: str) -> TensorArena:
        """Greet the orchestrator, and wait for the memory of tensors.

        Raises RankmeshError where it sends this program away.
        """
        with suppress(ChannelClosed):  # it may have sent this program away, and told it why
            self._stream.send(Greeting(release))
        message, files = self._stream.receive_with_fds()
        if isinstance(message, Declined):
            raise error_of(message)
        if not isinstance(message, Welcome) or len(files) != 1:
            raise Closed(f"{self.owner} has not answered as expected.")
        self.models = message.models
        self._socket.setblocking(False)
        return TensorArena(files[0])

    def ring(self) -> None:
        """Have the driver look after the link; in any thread, at any time."""
        if not self._rung and not self.ended:
            self._rung = True
            os.eventfd_write(self.bell, 1)

    def heard(self) -> None:
        """The driver has heard the bell, and looks after the link now."""
        os.eventfd_read(self.bell)
        self._rung = False  # last: a ring before the reading would be read, and not ring again

    def ask(
        self,
        message: Callable[[int], ProgramMessage],
        tell: Tell,
        deadline: float | None = None,
        at_once: bool = False,
    ) -> int:
        """Send a message with a number, under which `tell` gets the answer or an error; the number.

        `deadline` is a moment of `time.monotonic`. Raises Closed.
        """
        number = next(self._numbers)
        self._expected[number] = _Expected(tell, deadline, at_once)
        try:
            self.send(message(number))
        except BaseException:
            self._expected.pop(number, None)
            raise
        return number

    def send(self, message: ProgramMessage) -> None:
        """Send a message as soon as the socket takes it; in any thread. Raises Closed."""
        with self._sending:
            if self._reason:
                raise Closed(self._reason)
            self._stream.post(message)
            full = not self._flushed()
        if full:
            self.ring()

    def cancel(self, number: int) -> None:
        """Wait no more for an answer."""
        if self._expected.pop(number, None) is not None and not self._reason:
            self.send(Cancel(number))

    def forget(self, number: int) -> None:
        """Arrays of an answer are used no more; in any thread, at any time."""
        self._forgotten.append(number)
        self.ring()

    def receive(self) -> None:
        """Take what the orchestrator has sent."""
        try:
            messages = self._stream.receive_ready()
        except BlockingIOError:
            return
        except ChannelClosed as error:
            self.end(f"{self.owner} has ended the connection: {error}.")
            return
        for message in messages:
            self._take(message)
        self._tell()

    def flush(self) -> None:
        """Send what waits, and that answers are used no more."""
        with self._sending:
            if self._reason:
                return
            numbers = [self._forgotten.popleft() for _ in range(len(self._forgotten))]
            if numbers:
                self._stream.post(Forget(numbers))
            self._flushed()

    def expire(self, now: float) -> None:
        """End requests whose deadline has passed for long: the orchestrator may have stopped."""
        for number, one in list(self._expected.items()):
            if one.deadline is not None and one.deadline + _GRACE < now:
                text = (
                    f"request {number} has no answer: {self.owner} has stopped, or is overloaded."
                )
                self._told.append((one.tell, DeadlineExceeded(text)))
                self.cancel(number)
        self._tell()

    def close(self, reason: str) -> None:
        """Have the driver end the link; in any thread."""
        with self._sending:
            self._reason = self._reason or reason
        self.ring()

    def end(self, reason: str = "") -> None:
        """Close the socket; all that waits for answers gets Closed. By the driver."""
        with self._sending:
            self._reason = self._reason or reason
            self._stream.close()
        self.ended = True
        while self._expected:
            _, one = self._expected.popitem()
            self._told.append((one.tell, Closed(self._reason)))
        self._tell()

    @property
    def closing(self) -> bool:
        """Whether `close` was called."""
        return bool(self._reason)

    def _flushed(self) -> bool:
        """Whether all was sent. `receive` notices where the other side is gone."""
        try:
            self.full = not self._stream.flush()
        except ChannelClosed:
            self.full = False
        return not self.full

    def _take(self, message: EndpointMessage) -> None:
        if isinstance(message, Models):
            self.models = message.models
            return
        if isinstance(message, Welcome):
            return
        expected = self._expected.pop(message.number, None)
        if expected is not None:
            if expected.at_once:
                expected.tell(message)
            else:
                self._told.append((expected.tell, message))
        elif isinstance(message, Answered):  # nothing waits for it any more
            self.forget(message.number)
        elif isinstance(message, Declined) and not message.number:
            self.end(f"{self.owner} has ended the connection: {message.text}")

    def _tell(self) -> None:
        """Hand out answers; those that are received meanwhile wait for their turn."""
        if self._telling:
            return
        self._telling = True
        try:
            while self._told:
                tell, told = self._told.popleft()
                tell(told)
        finally:
            self._telling = False


def required(told: Told, kind: type[MessageT]) -> MessageT:
    """The answer, if it is a message of this kind; raises the error that it is else."""
    if isinstance(told, kind):
        return told
    if isinstance(told, RankmeshError):
        raise told
    if isinstance(told, Declined):
        raise error_of(told)
    raise RankmeshError(f"got a {type(told).__name__}, expected a {kind.__name__}.")


def error_of(message: Declined) -> RankmeshError:
    """The error that the orchestrator has sent."""
    if message.error == NotLoaded.__name__:
        return NotLoaded(message.text)
    error = error_named(message.error, message.text)
    if isinstance(error, QueueFull):
        error.depth = message.depth
    return error
