"""Questions to the ranks of an epoch beside their orders, and the wait for their replies."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from functools import partial

import msgspec

from ..comm.errors import Closed
from ..comm.serving.nonsense import Nonsense
from ..comm.serving.weights import Question, Reply, decode_reply, encode_question
from .epoch import Epoch
from .loop import Loop
from .reports import check_tensor
from .settings import ModelSettings
from .verdict import unprepared

_LOOK = 0.1
"""Seconds between looks at ranks that have not replied."""


class Lost(Exception):
    """The epoch has ended before all of its ranks had replied."""


class Inquiry:
    """One question per rank; `epoch.ask` sends them in the loop's thread, any other thread waits for the `replies`."""

    def __init__(self, epoch: Epoch, questions: Sequence[Question], loop: Loop, settings: ModelSettings) -> None:
        """`settings` say how long a rank may take."""
        self._epoch, self._loop, self._settings = epoch, loop, settings
        self.questions: Sequence[bytes] = [encode_question(question) for question in questions]
        self._replies: dict[int, Reply] = {}
        self._lost = False
        self._done = threading.Event()
        loop.call_soon(partial(epoch.ask, self))

    def take(self, rank: int, reply: bytes) -> bool:
        """What a rank has replied; whether it was the last one."""
        self._replies[rank] = _read(rank, reply)
        if len(self._replies) == len(self.questions):
            self._done.set()
        return self._done.is_set()

    def lose(self) -> None:
        """No replies will come."""
        self._lost = True
        self._done.set()

    def replies(self) -> list[Reply]:
        """All replies, in rank order. Raises Lost, after it has ended an epoch with a rank that replies too late."""
        began = time.monotonic()
        while not self._done.wait(_LOOK):
            if not self._loop.is_alive():
                raise Closed("the orchestrator was closed while its weights were updated.")
            self._look(time.monotonic() - began)
        if self._lost:
            raise Lost
        return [self._replies[rank] for rank in range(len(self.questions))]

    def _look(self, waited: float) -> None:
        """End the epoch of a rank that is late: sooner, where a signal has stopped it."""
        late = [process for process in self._epoch.processes if process.rank.rank not in self._replies]
        hang, longest = self._settings.hang_timeout, self._settings.start_timeout
        stopped = [process for process in late if process.stopped] if 0 < hang <= waited else []
        if late and (stopped or waited >= longest):
            process = (stopped or late)[0]
            error = unprepared(process, hang if stopped else longest, bool(stopped))
            self._loop.call_soon(partial(self._epoch.fail, error, process.rank.rank, False))


def _read(rank: int, data: bytes) -> Reply:
    try:
        reply = decode_reply(data)
    except msgspec.DecodeError as error:
        raise Nonsense(rank, f"sent a reply that cannot be read: {error}") from error
    for name, weight in reply.found.items():
        check_tensor(rank, name, weight.dtype, weight.shape)
        if min(weight.shape, default=0) < 0:
            raise Nonsense(rank, f"replied that the weight {name!r} has the shape {list(weight.shape)}")
    return reply
