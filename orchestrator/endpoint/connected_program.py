"""Connected program: one process of the user that sends requests to an orchestrator."""

from __future__ import annotations

import os
import selectors
import socket
from contextlib import suppress
from typing import Protocol

from ...comm.errors import RankmeshError
from ...comm.request_memory.owned_arena import OwnedArena
from ...comm.transport.local_socket import credentials
from ...comm.transport.message_stream import ChannelClosed, MessageStream
from ..event_loop.loop import EventLoopThread
from .granted_rooms import GrantedRooms, Misuse
from .messages import (
    LONGEST_REQUEST,
    Cancel,
    Declined,
    EndpointMessage,
    Forget,
    Greeting,
    MetricsReply,
    MetricsWish,
    Models,
    ProgramMessage,
    Room,
    RoomReturn,
    RoomWish,
    SentRequest,
    StatusReply,
    StatusWish,
    Welcome,
    decode_program,
    encode,
)
from .offered_models import OfferedModels
from .open_requests import OpenRequests, declined

_MOST_UNSENT = 64 << 20
"""Bytes that may wait for a program to read them."""

_BOTH = selectors.EVENT_READ | selectors.EVENT_WRITE


class ProgramPlaces(Protocol):
    """The places of all connected programs."""

    def greeted(self, program: ConnectedProgram) -> None:
        """A program has sent its greeting, which was right."""

    def ended(self, program: ConnectedProgram, reason: str) -> None:
        """A program has ended, or is sent away for a reason; once."""


class ConnectedProgram:
    """One connection, its memory and its requests; for the thread of the event loop.

    The end of the process ends it as well, also where a child that it has forked keeps the socket.
    """

    def __init__(
        self,
        sock: socket.socket,
        release: str,
        models: OfferedModels,
        arena: OwnedArena,
        loop: EventLoopThread,
        places: ProgramPlaces,
    ) -> None:
        """`release` is the version of this rankmesh."""
        sock.setblocking(False)
        self.pid, self.uid = credentials(sock)
        self._stream: MessageStream[EndpointMessage, ProgramMessage] = MessageStream(
            sock, encode, decode_program, LONGEST_REQUEST
        )
        self._release = release
        self._models = models
        self._arena = arena
        self._loop = loop
        self._places = places
        self._rooms = GrantedRooms(arena)
        self._requests = OpenRequests(models, self._rooms, arena, loop, self.tell)
        self._pidfd = -1
        self._welcome = False
        self._flushing = False
        self._full = False
        self._over = False

    def start(self) -> None:
        """Answer it from here on."""
        self._loop.watch(self._stream, self._ready)

    def tell(self, message: EndpointMessage) -> None:
        """Send a message after this callback, with all others."""
        if self._over:
            return
        self._stream.post(message)
        self._flush_soon()

    def tell_models(self) -> None:
        """The models have changed."""
        if self._welcome:
            self.tell(Models(self._models.cards()))

    def refuse(self, reason: str) -> None:
        """Send the program away."""
        self._stream.post(Declined(0, "UsageError", reason))
        self._flush()
        self.end(reason)

    def end(self, reason: str = "") -> None:
        """Drop its requests and its memory; for `reason` see ProgramPlaces."""
        if self._over:
            return
        self._over = True
        self._requests.close()
        self._rooms.close()
        self._loop.forget(self._stream)
        self._stream.close()
        if self._pidfd >= 0:
            self._loop.forget(self._pidfd)
            os.close(self._pidfd)
        self._places.ended(self, reason)

    def close_in_child(self) -> None:
        """Close the connection in a forked child."""
        self._stream.close()

    def _read(self) -> None:
        try:
            for message in self._stream.receive_ready():
                self._take(message)
        except BlockingIOError:
            return
        except ChannelClosed:
            self.end()
        except Misuse as fault:
            self.refuse(f"{fault}.")

    def _take(self, message: ProgramMessage) -> None:
        if not self._welcome and not isinstance(message, Greeting):
            raise Misuse("got a request before the greeting")
        match message:
            case SentRequest():
                self._requests.send(message)
            case Forget(numbers):
                for number in numbers:
                    self._requests.forget(number)
            case RoomReturn(offsets):
                self._rooms.returned(offsets)
            case RoomWish(number, size):
                self._give_room(number, size)
            case Cancel(number):
                self._requests.cancel(number)
            case Greeting(release):
                self._greet(release)
            case StatusWish(number):
                self.tell(StatusReply(number, self._models.status()))
            case MetricsWish(number):
                self.tell(MetricsReply(number, self._models.metrics()))

    def _greet(self, release: str) -> None:
        if release != self._release:
            raise Misuse(
                f"it has version {release} of rankmesh, and the orchestrator {self._release}: "
                "install the same for both"
            )
        if self._welcome:
            raise Misuse("got a second greeting")
        self._welcome = True
        self._places.greeted(self)
        with suppress(OSError):  # the process has ended, or is not of this PID namespace
            self._pidfd = os.pidfd_open(self.pid)
            self._loop.watch(self._pidfd, self.end)
        self._stream.post(Welcome(self._models.cards()), [self._arena.fd])
        self._flush_soon()

    def _give_room(self, number: int, size: int) -> None:
        try:
            room = self._rooms.grant(size)
        except (RankmeshError, MemoryError) as error:
            self.tell(declined(number, error))
        else:
            self.tell(Room(number, room.offset, room.size))

    def _flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Send what waits; where the socket is full, again once it has room."""
        if self._over:
            return
        try:
            self._flushing = not self._stream.flush()
        except ChannelClosed:
            self.end()
            return
        if self._stream.unsent > _MOST_UNSENT:
            self.end()
        elif self._flushing != self._full:
            self._full = self._flushing
            self._loop.forget(self._stream)
            self._loop.watch(
                self._stream, self._ready, _BOTH if self._full else selectors.EVENT_READ
            )

    def _ready(self) -> None:
        if self._full:
            self._flush()
        if not self._over:
            self._read()
