"""Loop stream: messages of one socket in an asyncio loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from ....comm.transport.message_stream import ChannelClosed, MessageStream

SentT = TypeVar("SentT")
ReceivedT = TypeVar("ReceivedT")


class LoopStream(Generic[SentT, ReceivedT]):
    """Sends and receives without waiting, until the other side is gone."""

    def __init__(
        self,
        stream: MessageStream[SentT, ReceivedT],
        loop: asyncio.AbstractEventLoop,
        receive: Callable[[ReceivedT], None],
        ended: Callable[[], None],
    ) -> None:
        """`receive` takes each message; `ended` is called once, when the other side is gone."""
        self._stream = stream
        self._descriptor = stream.fileno()
        self._loop = loop
        self._receive = receive
        self._ended = ended
        self._writing = False
        self._closed = False
        loop.add_reader(self._descriptor, self._read)

    def send(self, message: SentT, files: Sequence[int] = ()) -> None:
        """Send a message as soon as the socket takes it; nothing once the other side is gone."""
        if not self._closed:
            self._stream.post(message, files)
            self._flush()

    def close(self) -> None:
        """Close the socket."""
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._descriptor)
        self._loop.remove_writer(self._descriptor)
        self._stream.close()

    def _read(self) -> None:
        try:
            messages = self._stream.receive_ready()
        except BlockingIOError:
            return
        except ChannelClosed:
            self._end()
            return
        for message in messages:
            self._receive(message)

    def _flush(self) -> None:
        try:
            done = self._stream.flush()
        except ChannelClosed:
            self._end()
            return
        if done != self._writing:
            return
        self._writing = not done
        if self._writing:
            self._loop.add_writer(self._descriptor, self._flush)
        else:
            self._loop.remove_writer(self._descriptor)

    def _end(self) -> None:
        if not self._closed:
            self.close()
            self._ended()
