"""Local sockets beside a process that is stopped: its backlog is full, or it holds the lock."""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import rankmesh
from rankmesh.comm.errors import UsageError
from rankmesh.comm.sharing.attachment import ask_for_rank
from rankmesh.comm.transport import local_socket
from rankmesh.comm.transport.local_socket import connect, listen, remove_stale, socket_path
from rankmesh.orchestrator.endpoint.names import path_of

pytestmark = pytest.mark.pure

PATIENCE = 60.0


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[ExitStack]:
    """Closes at the end what a test opens; the runtime folder is the test's own."""
    with tempfile.TemporaryDirectory(prefix="rm") as path, ExitStack() as opened:
        monkeypatch.setenv("XDG_RUNTIME_DIR", path)
        yield opened


def stuck(opened: ExitStack, path: str, kind: socket.SocketKind = socket.SOCK_STREAM) -> None:
    """Listen at `path` and take nothing, until connections have filled the backlog."""
    listener = opened.enter_context(socket.socket(socket.AF_UNIX, kind))
    listener.bind(path)
    listener.listen(0)
    while True:
        caller = opened.enter_context(socket.socket(socket.AF_UNIX, kind))
        caller.setblocking(False)
        try:
            caller.connect(path)
        except BlockingIOError:
            return


def in_time(call: Callable[[], Any]) -> Any:
    """The result or the error of a call, which must not wait for ever."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(call())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert found, "it still waits"
    return found[0]


def test_stuck_listener_keeps_its_own_name_alone(opened: ExitStack) -> None:
    stuck(opened, socket_path("stuck"))
    assert in_time(lambda: listen(socket_path("stuck"))) is None
    opened.enter_context(in_time(lambda: listen(socket_path("other"))))
    in_time(lambda: remove_stale(socket_path("stuck")))
    assert os.path.exists(socket_path("stuck"))


def test_connecting_to_a_stuck_listener_ends(opened: ExitStack) -> None:
    stuck(opened, socket_path("stuck"))
    error = in_time(lambda: connect(socket_path("stuck"), 0.05))
    assert isinstance(error, TimeoutError) and "may be stopped or stuck" in str(error)


def test_stuck_orchestrator_is_named(opened: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck(opened, path_of("name"))
    monkeypatch.setattr("rankmesh.orchestrator.connected.client.PATIENCE", 0.05)
    error = in_time(lambda: rankmesh.connect("name"))
    assert isinstance(error, rankmesh.Closed) and "'name' has not answered" in str(error)


def test_stuck_listener_hides_no_weights_of_others(opened: ExitStack) -> None:
    stuck(opened, socket_path("stuck"), socket.SOCK_SEQPACKET)
    error = in_time(lambda: ask_for_rank(os.getppid()))
    assert isinstance(error, UsageError) and "shares no weights" in str(error)


def test_listener_behind_a_full_backlog_is_waited_for(opened: ExitStack) -> None:
    path = socket_path("busy")
    listener = opened.enter_context(socket.socket(socket.AF_UNIX))
    listener.bind(path)
    listener.listen(0)
    opened.enter_context(connect(path, 0.0))
    found: list[socket.socket] = []
    thread = threading.Thread(target=lambda: found.append(connect(path, PATIENCE)), daemon=True)
    thread.start()
    listener.accept()[0].close()
    thread.join(PATIENCE)
    opened.enter_context(found[0])


def test_lock_that_is_not_given_back_ends_in_an_error(
    opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_socket, "LOCK_PATIENCE", 0.05)
    path = socket_path("key")
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    opened.callback(os.close, folder)
    fcntl.flock(folder, fcntl.LOCK_EX)
    error = in_time(lambda: listen(path))
    assert isinstance(error, UsageError) and "locked by another process" in str(error)
