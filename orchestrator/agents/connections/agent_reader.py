"""Agent reader: takes messages of an agent or rank, in the thread of a caller that waits for one.

That spares the change from a reading thread to the caller's. A thread of its own reads while no
caller does, and what is larger than the buffer: a caller takes only messages that have come whole.
So a deadline, or an interrupt while it waits, finds the connection between two messages.
"""

from __future__ import annotations

import select
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Generic

from ....comm.serving.caller_slots import CallerSlots
from ....comm.serving.orders import InvalidRankData
from ....comm.transport.frame_stream import FrameStream, ReceivedT, SentT, StreamEnded

_NOTHING = 0


class AgentReader(Generic[SentT, ReceivedT]):
    """The reading of one connection. One thread at a time has it."""

    def __init__(self, stream: FrameStream[SentT, ReceivedT], take: Callable[[], None]) -> None:
        """`take` takes the next message of the stream. It raises StreamEnded or InvalidRankData."""
        self._stream = stream
        self._take = take
        self._reading = threading.RLock()
        self._ended = False
        self._own = select.epoll()
        self._own.register(stream.fileno(), select.EPOLLIN)

    def serve(self) -> None:
        """Read in this thread whenever no caller does. Raises what ends the connection."""
        try:
            while True:
                self._own.poll()
                with self._reading:
                    self._stream.fetch()  # nothing, where a caller has taken it meanwhile
                    while self._stream.begun:
                        self._take()
        finally:
            self._stream.close()  # a caller that reads leaves
            with self._reading:
                self._ended = True
                self._stream.free()
                self._own.close()

    def wait(self, slots: CallerSlots, slot: int) -> None:
        """See CallerSlots.wait; read meanwhile, unless another thread does."""
        told = False
        try:
            if self._reading.acquire(blocking=False):
                told = not self._ended and self._read_for(slots, slot)
        finally:
            with suppress(RuntimeError):  # another thread has it
                self._reading.release()
        if not told:
            slots.wait(slot)

    def _read_for(self, slots: CallerSlots, slot: int) -> bool:
        """Read until a slot is notified; whether it was, or else another thread has to go on."""
        stream = self._stream
        self._own.modify(stream.fileno(), _NOTHING)
        try:
            while not slots.wait_beside(slot, stream.fileno()):
                if not self._take_whole():
                    return False
            return True
        finally:
            self._own.modify(stream.fileno(), select.EPOLLIN)

    def _take_whole(self) -> bool:
        """Take all messages that have come whole; whether this thread may go on."""
        stream = self._stream
        try:
            stream.fetch()
            while stream.whole:
                self._take()
        except (StreamEnded, InvalidRankData):  # the other thread finds the connection ended
            stream.close()
            return False
        except BaseException:  # an interrupt: what it was to take is lost
            stream.close()
            raise
        return not stream.large
