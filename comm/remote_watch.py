"""The thread that ends a rank of a job on several hosts when the job has failed."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import NoReturn

from .arena import AbortRecord, Arena, Cause
from .channel import Channel, ChannelClosed
from .messages import Failed
from .rank import Rank
from .remote_link import Link
from .watch import Watch

_OWN_END = 2.0
"""Seconds that a program may take to end by itself after it raised."""


class RemoteWatch(Watch):
    """A Watch that tells the other hosts first, and then the rank's supervisor (over `channel`), if it has one.

    A supervisor ends the rank, and prints why; without one the rank does so itself.
    """

    def __init__(self, rank: Rank, arena: Arena, timeout: float, leftover: Path, link: Link,
                 channel: Channel | None) -> None:
        super().__init__(rank, arena, timeout, leftover, lambda: None)
        self._link, self._channel = link, channel

    def say_why(self) -> None:
        """Tell the other hosts why the job has failed, if it has."""
        record = self._arena.aborted()
        if record:
            stopped = f" on {self._rank.host}" if record.cause is Cause.STOPPED else ""
            self._link.fail(Failed("RankFailed", record.text + stopped, record.rank))

    def _end(self, record: AbortRecord) -> NoReturn:
        self.say_why()
        raised = record.rank == self._rank.rank and record.cause is Cause.FAILED
        if raised:
            threading.Event().wait(_OWN_END)  # the program ends with its own status meanwhile
        if self._channel is None or raised:
            super()._end(record)
        failed = self._link.failure or Failed("RankFailed", record.text, record.rank)
        if failed.rank is None:
            failed = Failed(failed.error, f"{failed.text}\nMeanwhile {self._rank} {self._progress.read()}")
        try:
            self._channel.send(failed)
        except ChannelClosed:
            super()._end(record)
        while True:
            threading.Event().wait()
