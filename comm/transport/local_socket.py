"""Local sockets in the user's runtime folder: found by a key, cleared away after their maker."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import struct
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256

from ..errors import UsageError
from ..host.own_folder import require_trusted_owners

_LONGEST = 64
"""Bytes of the folder's path: a socket's path has 108, and a name is needed too."""


def runtime_dir() -> str:
    """The user's own folder for sockets, made if missing, with mode 0700.

    It lies in XDG_RUNTIME_DIR where that may be used, else in the temporary folder. Raises
    UsageError where it cannot be made, where others may enter it, or where it or a folder on the
    way to it belongs to another user.
    """
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    if not os.access(base, os.W_OK | os.X_OK):
        base = _temporary()
    require_trusted_owners(
        base,
        "the folder for the sockets of ranks",
        "Set XDG_RUNTIME_DIR to a folder of yours, or to nothing for the temporary folder.",
    )
    path = os.path.join(base, f"rankmesh-{os.getuid()}")
    if len(os.fsencode(path)) > _LONGEST:
        raise UsageError(
            f"{path} is longer than {_LONGEST} bytes, too long for sockets in it. Set "
            "XDG_RUNTIME_DIR to a folder with a shorter path."
        )
    status = _made(path)
    if (
        not stat.S_ISDIR(status.st_mode)
        or status.st_uid != os.getuid()
        or stat.S_IMODE(status.st_mode) & 0o077
    ):
        raise UsageError(
            f"{path} must be a folder of user {os.getuid()} that no other user may enter (mode "
            f"0700); it has owner {status.st_uid}, mode {stat.S_IMODE(status.st_mode):o}. Remove "
            "it, or set XDG_RUNTIME_DIR."
        )
    return path


def _temporary() -> str:
    try:
        return tempfile.gettempdir()
    except FileNotFoundError as error:
        raise UsageError(
            "there is no folder for the sockets of ranks: neither XDG_RUNTIME_DIR nor a temporary "
            "folder may be written. Set XDG_RUNTIME_DIR to a folder of yours."
        ) from error


def _made(path: str) -> os.stat_result:
    """The folder's status; the folder is made if missing. Looking first is quick."""
    with suppress(FileNotFoundError):
        return os.lstat(path)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass  # another process was faster; the caller checks its owner
    except OSError as error:
        raise UsageError(
            f"{path}, where the ranks meet, cannot be made: {error.strerror}. Set XDG_RUNTIME_DIR "
            "to a folder of yours."
        ) from error
    return os.lstat(path)


_CREDENTIALS = struct.Struct("3i")
_BACKLOG = 1024
_SUFFIX = ".sock"
_RETRY = 0.01
LOCK_PATIENCE = 10.0
"""Seconds in which another process must have made or removed its sockets."""


def socket_path(key: str) -> str:
    """The path of the socket for a key: all processes with the same key meet there.

    A key is a rank table's content, a launcher's job id, a handle.
    """
    return os.path.join(runtime_dir(), sha256(key.encode()).hexdigest()[:32] + _SUFFIX)


def credentials(sock: socket.socket) -> tuple[int, int]:
    """The process id and user id at the other end of a connection."""
    pid, uid, _ = _CREDENTIALS.unpack(
        sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    )
    return pid, uid


def socket_paths() -> list[str]:
    """The paths of all sockets in the folder."""
    folder = runtime_dir()
    return [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(_SUFFIX)]


def listen(path: str, kind: socket.SocketKind = socket.SOCK_STREAM) -> socket.socket | None:
    """Listen at `path`; None where another process does already.

    A lock on the folder decides. A socket file without a living listener is taken over.
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
    """Remove a socket file without a living listener; the folder may be gone already."""
    with suppress(FileNotFoundError), _locked(path):
        if not _answers(path):
            unlink(path)


def connect(
    path: str, patience: float, kind: socket.SocketKind = socket.SOCK_STREAM
) -> socket.socket:
    """Connect to the process that listens at `path`.

    Raises TimeoutError where it leaves its backlog full for `patience` seconds, FileNotFoundError
    or ConnectionRefusedError where no process listens.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            return _connect_at_once(path, kind)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"the process that listens at {path} has taken no connection for "
                    f"{patience:g} s: it may be stopped or stuck"
                ) from None
        time.sleep(_RETRY)


def _connect_at_once(path: str, kind: socket.SocketKind) -> socket.socket:
    """Connect without waiting; BlockingIOError where the backlog is full."""
    sock = socket.socket(socket.AF_UNIX, kind)
    try:
        sock.setblocking(False)
        sock.connect(path)
        sock.setblocking(True)
    except BaseException:
        sock.close()
        raise
    return sock


@contextmanager
def _locked(path: str) -> Iterator[None]:
    """Lock the folder of `path`: no other process makes or removes sockets there.

    Raises UsageError where another process keeps it locked, which may be stopped.
    """
    folder = os.path.dirname(path)
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    deadline = time.monotonic() + LOCK_PATIENCE
    try:
        while not _lock(lock):
            if time.monotonic() > deadline:
                raise UsageError(
                    f"{folder} has been locked by another process for more than "
                    f"{LOCK_PATIENCE:g} s: it may be stopped. `fuser {folder}` names it."
                )
            time.sleep(_RETRY)
        yield
    finally:
        os.close(lock)


def _lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove_dead(folder: str) -> None:
    """Remove sockets without a living listener; the caller holds the lock."""
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if name.endswith(_SUFFIX) and not _answers(path):
            unlink(path)


def _answers(path: str) -> bool:
    """Whether a process listens at `path`; one that leaves its backlog full does, too."""
    try:
        _connect_at_once(path, socket.SOCK_STREAM).close()
    except BlockingIOError:
        return True
    except (FileNotFoundError, ConnectionRefusedError):
        return False
    except OSError as error:
        if error.errno != errno.EPROTOTYPE:  # a process listens, with another kind of socket
            raise
    return True


def unlink(path: str) -> None:
    """Remove a socket file that may be gone already."""
    with suppress(FileNotFoundError):
        os.unlink(path)
