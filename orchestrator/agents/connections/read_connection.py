"""Read connection: a connection of an agent or rank, from before its beginning on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic

from ....comm.serving.caller_slots import CallerSlots
from ....comm.transport.frame_stream import FrameStream, ReceivedT, SentT
from .agent_reader import AgentReader


class ReadConnection(Generic[SentT, ReceivedT]):
    """Sends to one agent or rank. Callers read its messages while they wait."""

    _stream: FrameStream[SentT, ReceivedT] | None = None
    _reader: AgentReader[SentT, ReceivedT] | None = None

    def send(self, message: SentT, tensors: Sequence[memoryview]) -> None:
        """Send a message, and the tensors that follow it; nothing before the other end has
        connected, and nothing once the connection has ended.
        """
        if self._stream is not None:
            self._stream.send(message, tensors)

    @property
    def given(self) -> int:
        """How many bytes were to be sent so far."""
        return 0 if self._stream is None else self._stream.given

    @property
    def carried(self) -> tuple[int, int]:
        """How many bytes have arrived at the other end, and at this one."""
        stream = self._stream
        return (0, 0) if stream is None else (stream.arrived, stream.received)

    @property
    def round_trip(self) -> float:
        """Seconds to the other end and back at least; 0.0 where that is not known."""
        return 0.0 if self._stream is None else self._stream.round_trip

    def wait(self, slots: CallerSlots, slot: int) -> None:
        """Wait at a slot for a notification, maybe by taking messages of the connection."""
        if self._reader is None:
            slots.wait(slot)
        else:
            self._reader.wait(slots, slot)
