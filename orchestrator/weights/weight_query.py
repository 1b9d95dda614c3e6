"""Weight query: sends a request about weights to each rank, and waits for the replies."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from functools import partial

import msgspec

from ...comm.errors import Closed
from ...comm.processes.rank_errors import weights_not_ready
from ...comm.serving.orders import InvalidRankData
from ...comm.serving.weights import WeightReply, decode_weight_reply
from ..config.settings import ModelSettings
from ..event_loop.loop import EventLoopThread
from ..replica.control import PlacedRequest, check_tensor
from ..replica.incarnation import Incarnation

_LOOK = 0.1
"""Seconds between looks at ranks that have not replied."""


class RanksLost(Exception):
    """The incarnation has ended before all of its ranks had replied."""


class WeightQuery:
    """A control round: one request per rank, sent in the loop's thread.

    Another thread waits for the `replies`.
    """

    def __init__(
        self,
        incarnation: Incarnation,
        requests: Sequence[PlacedRequest],
        loop: EventLoopThread,
        settings: ModelSettings,
    ) -> None:
        """`requests` are one for each rank; `settings` have the deadlines."""
        self._incarnation = incarnation
        self._loop = loop
        self._settings = settings
        self.requests = requests
        self._replies: dict[int, WeightReply] = {}
        self._lost = False
        self._done = threading.Event()
        loop.call_soon(partial(incarnation.ask, self))

    def take(self, rank: int, reply: bytes) -> bool:
        """See ControlRound.take."""
        self._replies[rank] = _read(rank, reply)
        if len(self._replies) == len(self.requests):
            self._done.set()
        return self._done.is_set()

    def lose(self) -> None:
        """See ControlRound.lose."""
        self._lost = True
        self._done.set()

    def replies(self) -> list[WeightReply]:
        """Wait for all replies, in rank order.

        Raises RanksLost, also after it has ended an incarnation with a rank that replies too late.
        """
        began = time.monotonic()
        while not self._done.wait(_LOOK):
            if not self._loop.is_alive():
                raise Closed("the orchestrator was closed while its weights were updated.")
            self._look(time.monotonic() - began)
        if self._lost:
            raise RanksLost
        return [self._replies[rank] for rank in range(len(self.requests))]

    def _look(self, waited: float) -> None:
        """End the incarnation of a rank that is late: sooner, where a signal has stopped it."""
        late = [
            process
            for process in self._incarnation.processes
            if process.rank.rank not in self._replies
        ]
        hang = self._settings.hang_timeout
        longest = self._settings.start_timeout
        stopped = [process for process in late if process.stopped] if 0 < hang <= waited else []
        if late and (stopped or waited >= longest):
            process = (stopped or late)[0]
            error = weights_not_ready(process, hang if stopped else longest, bool(stopped))
            self._loop.call_soon(
                partial(self._incarnation.fail_rank, error, process.rank.rank, False)
            )


def _read(rank: int, data: bytes) -> WeightReply:
    try:
        reply = decode_weight_reply(data)
    except msgspec.DecodeError as error:
        raise InvalidRankData(rank, f"sent a reply that cannot be read: {error}") from error
    for name, weight in reply.found.items():
        check_tensor(rank, name, weight.dtype, weight.shape)
        if min(weight.shape, default=0) < 0:
            raise InvalidRankData(
                rank, f"replied that the weight {name!r} has the shape {list(weight.shape)}"
            )
    return reply
