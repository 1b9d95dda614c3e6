"""Endpoint of an orchestrator: takes connections of programs under a name, and ends with it."""

from __future__ import annotations

import os
import socket
import weakref
from contextlib import suppress
from functools import partial
from importlib.metadata import version

from ...comm.errors import UsageError
from ...comm.processes.event_loop import Timer
from ...comm.request_memory.owned_arena import OwnedArena
from ...comm.sharing.refusals import Refusals
from ...comm.transport.local_socket import connect, credentials, listen, unlink
from ...comm.transport.newcomers import CROWDED, SILENT, Newcomers
from ..event_loop.loop import EventLoopThread
from .connected_program import ConnectedProgram
from .names import path_of
from .offered_models import OfferedModels

MOST_PROGRAMS = 1000
_MOST_SILENT = 64
"""Connections whose greeting has not come; a program sends it at once."""

_LOOK = 1.0
_PAUSE = 0.1
"""Seconds until the next try where no descriptor is free."""

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
        self._newcomers = Newcomers[ConnectedProgram](_MOST_SILENT)
        self._looking: Timer | None = None
        self._refusals = Refusals("a program's connection refused")
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
        self._loop.call_soon(partial(self._admit, sock, known=True))

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
            except BlockingIOError:  # there is no further one
                return
            except OSError:  # no descriptor is free, or the program has left already
                self._make_room(listener)
                return
            self._admit(sock)

    def _make_room(self, listener: socket.socket) -> None:
        """Send the oldest newcomer away; where there is none, look at the listener later."""
        oldest = self._newcomers.oldest()
        if oldest is not None:
            oldest.refuse(f"{CROWDED}.")
            return
        self._loop.forget(listener)
        self._loop.call_later(_PAUSE, partial(self._look_again, listener))

    def _look_again(self, listener: socket.socket) -> None:
        if listener.fileno() >= 0:
            self._loop.watch(listener, partial(self._accept, listener))

    def _admit(self, sock: socket.socket, known: bool = False) -> None:
        """Answer a program; one that is `known` has its place, and may greet at any time."""
        program = ConnectedProgram(sock, self._release, self._models, self._arena, self._loop, self)
        if program.uid != os.geteuid():
            program.refuse("the orchestrator belongs to another user.")
            return
        if len(self._programs) - len(self._newcomers) >= MOST_PROGRAMS:
            program.refuse(f"{MOST_PROGRAMS} programs are connected already.")
            return
        self._programs.add(program)
        program.start()
        crowding = None if known else self._newcomers.add(program)
        if crowding is not None:
            crowding.refuse(f"{CROWDED}.")
        self._look_later()

    def greeted(self, program: ConnectedProgram) -> None:
        """See ProgramPlaces."""
        self._newcomers.remove(program)

    def ended(self, program: ConnectedProgram, reason: str) -> None:
        """See ProgramPlaces."""
        self._programs.discard(program)
        self._newcomers.remove(program)
        if reason:
            self._refusals.add(program.pid, program.uid, reason)
            self._look_later()

    def _look(self) -> None:
        """Send those away that are silent for too long, and log how many were."""
        self._looking = None
        for late in self._newcomers.late():
            late.refuse(f"{SILENT}.")
        self._refusals.report()
        self._look_later()

    def _look_later(self) -> None:
        """Look once a second, as long as there is something to look after."""
        if self._looking is None and (len(self._newcomers) or self._refusals.pending):
            self._looking = self._loop.call_later(_LOOK, self._look)

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
