"""Message sender: delivers messages to ranks without waiting for a rank that takes none."""

from __future__ import annotations

import os
import selectors
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..transport.message_stream import ChannelClosed
from ..transport.messages import Message
from .event_loop import EventLoop, Timer
from .rank_process import RankProcess


@dataclass(slots=True)
class _Backlog:
    """A rank with messages that it has not taken: the descriptor to wait at, and the deadline."""

    descriptor: int
    deadline: Timer | None


class MessageSender:
    """Sends at once what a rank can take, and the rest from `loop` when it can take more."""

    def __init__(
        self, loop: EventLoop, timeout: float, unresponsive: Callable[[RankProcess], None]
    ) -> None:
        """Call `unresponsive` with a rank that takes no byte for `timeout` seconds (0: never)."""
        self._loop = loop
        self._timeout = timeout
        self._unresponsive = unresponsive
        self._backlogs: dict[RankProcess, _Backlog] = {}

    def send(self, process: RankProcess, message: Message, fds: Sequence[int] = ()) -> None:
        """Send a message behind those that wait; nothing, if the rank is gone.

        Descriptors may go along with a rank's first message.
        """
        process.channel.post(message, fds)
        if process not in self._backlogs:
            self._flush(process)

    def close(self) -> None:
        """Drop the messages that wait."""
        for process in list(self._backlogs):
            self._drop(process)

    def _flush(self, process: RankProcess) -> None:
        try:
            sent = process.channel.flush()
        except ChannelClosed:
            sent = True  # the rank's pidfd tells that it is gone, and why
        if sent:
            self._drop(process)
        else:
            self._wait(process)

    def _wait(self, process: RankProcess) -> None:
        """Wait until the rank takes more, at a descriptor of its own: the channel's own is read."""
        if process not in self._backlogs:
            descriptor = os.dup(process.channel.fileno())
            self._backlogs[process] = _Backlog(descriptor, None)
            self._loop.watch(descriptor, lambda: self._flush(process), selectors.EVENT_WRITE)
        backlog = self._backlogs[process]
        if backlog.deadline is not None:
            backlog.deadline.cancel()
        if self._timeout:
            backlog.deadline = self._loop.call_later(
                self._timeout, lambda: self._unresponsive(process)
            )

    def _drop(self, process: RankProcess) -> None:
        backlog = self._backlogs.pop(process, None)
        if backlog is None:
            return
        if backlog.deadline is not None:
            backlog.deadline.cancel()
        self._loop.forget(backlog.descriptor)
        os.close(backlog.descriptor)
