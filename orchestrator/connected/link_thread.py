"""Link thread: takes the answers of an orchestrator for all threads of a connected program."""

from __future__ import annotations

import selectors
import threading
import time

from ...comm.errors import UsageError
from ...comm.processes.event_loop import EventLoop
from .granted_memory import GrantedMemory, RoomAnswer
from .link import EndpointLink

_SOON = 0.005
"""Seconds until what is used no more is sorted: many requests together."""

_IDLE = 10.0
"""Seconds without a request after which free memory goes back to the orchestrator."""

_BOTH = selectors.EVENT_READ | selectors.EVENT_WRITE


class LinkThread(threading.Thread):
    """Drives a link until its end."""

    def __init__(self, link: EndpointLink) -> None:
        super().__init__(name="rankmesh-connected", daemon=True)
        self._link = link
        self._loop = EventLoop()
        self._full = False
        self._tidying = False
        self.memory: GrantedMemory | None = None
        """The memory that is tidied."""

    def run(self) -> None:
        """Drive the link."""
        link, loop = self._link, self._loop
        loop.watch(link, self._ready)
        loop.watch(link.bell, self._heard)
        self._expire()
        while not link.ended:
            loop.turn()
        loop.close()
        if self.memory is not None:
            self.memory.arena.close()

    def require_another(self, call: str) -> None:
        """Raise UsageError where `call`, which waits for this thread, is made in it."""
        if threading.get_ident() == self.ident:
            raise UsageError(
                f"{call} waits for the thread that calls back, and may not be called from a "
                "callback of a future: use submit there, or another thread."
            )

    def wait(self, answer: RoomAnswer) -> None:
        """Wait for an answer; in this thread, as a callback may send requests, by receiving it."""
        if threading.get_ident() != self.ident:
            answer.wait()
            return
        with selectors.DefaultSelector() as readable:
            readable.register(self._link, selectors.EVENT_READ)
            while not answer.there:
                readable.select()
                self._link.receive()

    def _ready(self) -> None:
        link = self._link
        if link.ended:  # by the bell, in the same turn
            return
        if self._full:
            link.flush()
            self._watch()
        link.receive()

    def _heard(self) -> None:
        link = self._link
        link.heard()
        if link.closing:
            link.end()
            return
        self._watch()
        if not self._tidying:
            self._tidying = True
            self._loop.call_later(_SOON, self._tidy)

    def _tidy(self) -> None:
        self._tidying = False
        if not self._link.ended:
            if self.memory is not None:
                self.memory.tidy()
            self._link.flush()
            self._watch()

    def _watch(self) -> None:
        """Wait for room in the socket where messages wait for it."""
        if self._full != self._link.full and not self._link.ended:
            self._full = self._link.full
            self._loop.forget(self._link)
            self._loop.watch(self._link, self._ready, _BOTH if self._full else 1)

    def _expire(self) -> None:
        self._link.expire(time.monotonic())
        self._loop.call_later(1.0, self._expire)
