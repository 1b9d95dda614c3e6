"""Loop link: drives the link to an orchestrator in an asyncio loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from .granted_memory import GrantedMemory
from .link import EndpointLink

_SOON = 0.005
"""Seconds until memory that is used no more is sorted: that of many requests together."""


class LoopLink:
    """Drives a link from `start` on until its end."""

    def __init__(
        self,
        link: EndpointLink,
        memory: GrantedMemory,
        loop: asyncio.AbstractEventLoop,
        ended: Callable[[], None],
    ) -> None:
        """`ended` is called when the orchestrator is gone."""
        self._link = link
        self._memory = memory
        self._loop = loop
        self._ended = ended
        self._descriptor = link.fileno()
        self._writing = False
        self._tidying = False

    def start(self) -> None:
        """Drive the link from here on."""
        self._loop.add_reader(self._descriptor, self._receive)
        self._loop.add_reader(self._link.bell, self._heard)
        self._expire()

    def _receive(self) -> None:
        self._link.receive()
        if self._link.ended:
            self._stop()

    def _heard(self) -> None:
        link = self._link
        link.heard()
        if link.closing:
            self._loop.remove_reader(self._descriptor)
            link.end()
            self._stop()
            return
        self._watch()
        if not self._tidying:
            self._tidying = True
            self._loop.call_later(_SOON, self._tidy)

    def _tidy(self) -> None:
        self._tidying = False
        if not self._link.ended:
            self._memory.tidy()
            self._flush()

    def _flush(self) -> None:
        self._link.flush()
        self._watch()

    def _watch(self) -> None:
        """Wait for room in the socket where messages wait for it."""
        if self._writing != self._link.full:
            self._writing = self._link.full
            if self._writing:
                self._loop.add_writer(self._descriptor, self._flush)
            else:
                self._loop.remove_writer(self._descriptor)

    def _expire(self) -> None:
        if not self._link.ended:
            self._link.expire(time.monotonic())
            self._loop.call_later(1.0, self._expire)

    def _stop(self) -> None:
        self._loop.remove_reader(self._descriptor)
        self._loop.remove_writer(self._descriptor)
        self._loop.remove_reader(self._link.bell)
        self._memory.arena.close()
        self._ended()
