"""Endpoint of an orchestrator: takes connections of programs under a name, and ends with it."""

from __future__ import annotations

import logging
import os
import socket
import weakref
from contextlib import suppress
from functools import partial
from importlib.metadata import version

from ...comm.errors import UsageError
from ...comm.request_memory.owned_arena import OwnedArena
from ...comm.transport.local_socket import connect, credentials, listen, unlink
from ..event_loop.loop import EventLoopThread
from .connected_program import ConnectedProgram
from .names import path_of
from .offered_models import OfferedModels

_LOG = logging.getLogger("rankmesh.orchestrator")
_MOST_PROGRAMS = 1000
_MOST_NEWCOMERS = 16
"""Connections that are taken in one turn of the event loop."""


class Endpoint:
    """The connected programs of one orchestrator, and the names under which it is found."""

    def __init__(self, models: OfferedModels, arena: OwnedArena, loop: EventLoopThread) -> None:
        """No program can connect yet."""
        self._models = models
        self._arena = arena
        self._loop = loop
        self._release = version("rankmesh")
        self._listeners: dict[str, socket.socket] = {}
        self._programs: set[ConnectedProgram] = set()
        models.watch(self._tell_models)
        _ENDPOINTS.add(self)

    def listen(self, name: str) -> None:
        """Take connections of programs that connect to `name`. Raises UsageError where another
        process has the name.
        """
        path = path_of(name)
        if name in self._listeners:
            return
        listener = listen(path, socket.SOCK_STREAM)
        if listener is None:
            raise UsageError(
                f"the name '{name}' is taken: {_owner(path)} of this user listens under it. Choose "
                "another name, or end that process."
            )
        listener.setblocking(False)
        self._listeners[name] = listener
        self._loop.call_soon(partial(self._loop.watch, listener, partial(self._accept, listener)))

    def add(self, sock: socket.socket) -> None:
        """Answer a program at the other end of a socket pair; from any thread."""
        self._loop.call_soon(partial(self._admit, sock))

    def stop_listening(self) -> None:
        """Take no more programs; for the thread of the event loop, or after its end."""
        for name, listener in self._listeners.items():
            unlink(path_of(name))
            self._loop.forget(listener)
            listener.close()
        self._listeners.clear()

    def close(self) -> None:
        """End all connections, likewise."""
        self.stop_listening()
        for program in list(self._programs):
            program.end()

    def close_in_child(self) -> None:
        """Close what a forked child inherits: it would keep the names after the owner's end."""
        for listener in self._listeners.values():
            listener.close()
        for program in self._programs:
            program.close_in_child()

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_MOST_NEWCOMERS):
            try:
                sock, _ = listener.accept()
            except OSError:  # there is no further one, or no descriptor is free
                return
            self._admit(sock)

    def _admit(self, sock: socket.socket) -> None:
        program = ConnectedProgram(
            sock, self._release, self._models, self._arena, self._loop, self._programs.discard
        )
        if program.uid != os.geteuid():
            program.refuse("the orchestrator belongs to another user.")
            return
        if len(self._programs) >= _MOST_PROGRAMS:
            program.refuse(f"{_MOST_PROGRAMS} programs are connected already.")
            return
        self._programs.add(program)
        program.start()

    def _tell_models(self) -> None:
        """The models have changed; in any thread."""
        self._loop.call_soon(self._tell)

    def _tell(self) -> None:
        for program in list(self._programs):
            program.tell_models()


def _owner(path: str) -> str:
    """The process that listens at `path`; without its number where it takes no connection."""
    with suppress(OSError), connect(path, 0.0) as probe:
        return f"process {credentials(probe)[0]}"
    return "a process"


def _close_in_child() -> None:
    for endpoint in list(_ENDPOINTS):
        endpoint.close_in_child()


_ENDPOINTS: weakref.WeakSet[Endpoint] = weakref.WeakSet()
os.register_at_fork(after_in_child=_close_in_child)
