"""Sockets in the user's runtime folder: found by name, made by one process, cleared away after its death."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256

from .runtime_dir import runtime_dir

_CREDENTIALS = struct.Struct("3i")
_BACKLOG = 1024
_SUFFIX = ".sock"


def socket_path(key: str) -> str:
    """Where those meet who share `key` (a rank table's content, a launcher's job id, a handle)."""
    return os.path.join(runtime_dir(), sha256(key.encode()).hexdigest()[:32] + _SUFFIX)


def credentials(sock: socket.socket) -> tuple[int, int]:
    """Process and user at the other end of a connection."""
    pid, uid, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return pid, uid


def socket_paths() -> list[str]:
    """All sockets in the folder."""
    folder = runtime_dir()
    return [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(_SUFFIX)]


def listen(path: str, kind: socket.SocketKind = socket.SOCK_STREAM) -> socket.socket | None:
    """A socket that listens at `path`, or None where another process was faster.

    A lock on the folder decides; a socket file whose listener has died is taken over.
    """
    with _locked(path):
        if _answers(path):
            return None
        _remove_dead(os.path.dirname(path))
        listener = socket.socket(socket.AF_UNIX, kind)
        listener.bind(path)
        listener.listen(_BACKLOG)
        return listener


def remove_stale(path: str) -> None:
    """Remove a socket file whose listener has died; the whole folder may be gone already."""
    with suppress(FileNotFoundError), _locked(path):
        if not _answers(path):
            unlink(path)


@contextmanager
def _locked(path: str) -> Iterator[None]:
    """Nobody else makes or removes sockets in the folder of `path`."""
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _remove_dead(folder: str) -> None:
    """Remove sockets whose listeners were killed; whoever makes a new one holds the folder's lock."""
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if name.endswith(_SUFFIX) and not _answers(path):
            unlink(path)


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except OSError as error:
            if error.errno != errno.EPROTOTYPE:  # somebody listens, with another kind of socket
                raise
    return True


def unlink(path: str) -> None:
    """Remove a socket file that may be gone already."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
