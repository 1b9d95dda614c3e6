"""Messages on their way to ranks: a rank that takes none (it may be stopped) keeps nobody waiting."""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Sequence

from ..channel import ChannelClosed
from ..messages import Message
from .rank_process import RankProcess


class Post:
    """Sends when a rank can take it, from the loop of `selector`, whose keys' data are called when they are ready.

    `timeout` is how many seconds a rank may take nothing while something waits for it (0: any time).
    """

    def __init__(self, selector: selectors.BaseSelector, timeout: float) -> None:
        self._selector, self._timeout = selector, timeout
        self._waiting: dict[int, tuple[RankProcess, float]] = {}

    def send(self, process: RankProcess, message: Message, fds: Sequence[int] = ()) -> None:
        """Send a message behind those that wait, now or when the rank takes it; nothing, if the rank is gone.

        With a rank's first message descriptors may go along.
        """
        process.channel.post(message, fds)
        if not self._is_waiting(process):
            self._push(process)

    def patience(self) -> float | None:
        """Seconds until the first deadline, 0 once it has passed, None while there is none."""
        if not self._waiting or not self._timeout:
            return None
        return max(0.0, min(since for _, since in self._waiting.values()) + self._timeout - time.monotonic())

    def late(self) -> Sequence[RankProcess]:
        """The ranks that have taken nothing for as long as the timeout says."""
        return [p for p, since in self._waiting.values() if 0 < self._timeout <= time.monotonic() - since]

    def close(self) -> None:
        """Forget what waits."""
        for descriptor in self._waiting:
            self._selector.unregister(descriptor)
            os.close(descriptor)
        self._waiting.clear()

    def _is_waiting(self, process: RankProcess) -> bool:
        return any(process is other for other, _ in self._waiting.values())

    def _push(self, process: RankProcess, descriptor: int | None = None) -> None:
        """Send what can be sent; the rest waits at a descriptor of its own, as the channel's is read at."""
        try:
            sent = process.channel.flush()
        except ChannelClosed:
            sent = True  # the rank is gone: its pidfd tells, with the reason
        if not sent:
            self._waiting[descriptor or self._descriptor(process)] = process, time.monotonic()
        elif descriptor is not None:
            self._selector.unregister(descriptor)
            del self._waiting[descriptor]
            os.close(descriptor)

    def _descriptor(self, process: RankProcess) -> int:
        descriptor = os.dup(process.channel.fileno())
        self._selector.register(descriptor, selectors.EVENT_WRITE, lambda: self._push(process, descriptor))
        return descriptor
