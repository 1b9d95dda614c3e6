"""The meeting place of ranks that no supervisor started: a socket in the user's runtime folder.

The first rank that comes listens, and serves all of them (itself too) from a thread: it hands out the
arena, relays exchanges, and refuses a second job with the same key.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import selectors
import socket
import struct
import threading
from hashlib import sha256

from .arena import Arena, Cause
from .channel import Channel, ChannelClosed
from .messages import Exchange, Exchanged, Failed, Join, Joined, Message
from .progress import Progress, Stage
from .relay import Relay
from .runtime_dir import runtime_dir

_CREDENTIALS = struct.Struct("3i")
_BACKLOG = 1024


class Hub:
    """Serves the ranks of one job; `start` returns at once."""

    def __init__(self, listener: socket.socket, path: str, world_size: int, timeout: float) -> None:
        self._listener, self._path, self._world_size = listener, path, world_size
        self._arena = Arena.create(world_size)
        self._relay = Relay(world_size, timeout)
        self._selector = selectors.DefaultSelector()
        self._members: dict[int, tuple[Channel, int]] = {}
        self._ended: dict[int, str] = {}

    def start(self) -> None:
        """Serve from a thread that ends with the process, or when all members have left."""
        atexit.register(_remove, self._path)
        threading.Thread(target=self._serve, name="rankmesh-hub", daemon=True).start()

    def _serve(self) -> None:
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        try:
            while True:
                for key, _ in self._selector.select(self._relay.patience()):
                    key.data()
                self._check_deadline()
        except _Finished:
            self._close()

    def _accept(self) -> None:
        sock, _ = self._listener.accept()
        pid, uid, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        if uid != os.getuid():
            sock.close()
            return
        channel = Channel(sock)
        self._selector.register(channel, selectors.EVENT_READ, lambda: self._read(channel, pid))

    def _read(self, channel: Channel, pid: int) -> None:
        try:
            for message in channel.receive_ready():
                self._handle(channel, pid, message)
        except ChannelClosed:
            self._leave(channel)

    def _handle(self, channel: Channel, pid: int, message: Message) -> None:
        if isinstance(message, Join):
            self._join(channel, pid, message)
            return
        rank = next((r for r, (member, _) in self._members.items() if member is channel), None)
        if isinstance(message, Exchange) and rank is not None:
            payloads = self._relay.give(rank, message.payload)
            if payloads is not None:
                self._tell_all(Exchanged(payloads))
            self._check_round()

    def _join(self, channel: Channel, pid: int, join: Join) -> None:
        if join.rank in self._members:
            pids = ", ".join(f"rank {r} is process {p}" for r, (_, p) in sorted(self._members.items()))
            channel.send(Failed("UsageError", f"rank {join.rank} of this job runs already ({pids}). A second job with "
                                              f"the same rank table or job id must wait until the first has ended."))
        elif join.world_size != self._world_size or not 0 <= join.rank < self._world_size:
            channel.send(Failed("UsageError", f"rank {join.rank} of {join.world_size} came to a job of "
                                              f"{self._world_size} ranks: start all with the same rank table."))
        else:
            self._members[join.rank] = (channel, pid)
            channel.send_with_fd(Joined(), self._arena.fd)

    def _leave(self, channel: Channel) -> None:
        self._selector.unregister(channel)
        channel.close()
        rank = next((r for r, (member, _) in self._members.items() if member is channel), None)
        if rank is None:
            return
        _, pid = self._members.pop(rank)
        progress = Progress(self._arena, rank)
        self._ended[rank] = f"rank {rank} (process {pid}) ended while it {progress.read()}"
        progress.stage = Stage.ENDED  # those who wait for it in a collective see that
        self._check_round()
        if not self._members:
            raise _Finished

    def _check_round(self) -> None:
        """A round that waits for a rank that has ended will never be complete: say so to those who wait."""
        gone = [rank for rank in self._relay.late() if rank in self._ended]
        if gone and self._relay.pending:
            self._tell_all(Failed("RankFailed", self._ended[gone[0]]))

    def _tell_all(self, message: Message) -> None:
        for channel, _ in self._members.values():
            try:
                channel.send(message)
            except ChannelClosed:
                continue  # its end of file is on the way

    def _check_deadline(self) -> None:
        if self._relay.patience() != 0.0:
            return
        late = self._relay.late()
        said = ", ".join(f"rank {r} {Progress(self._arena, r).read() if r in self._members else 'never came'}"
                         for r in late)
        text = f"the ranks waited {self._relay.timeout:g} s for each other: {said}"
        self._arena.abort(late[0], Cause.LATE, text)
        self._tell_all(Failed("RankFailed", text))
        raise _Finished

    def _close(self) -> None:
        for channel, _ in self._members.values():
            channel.close()
        self._selector.close()
        self._listener.close()
        self._arena.close()
        _remove(self._path)


class _Finished(Exception):
    """The hub has nobody left to serve."""


def socket_path(key: str) -> str:
    """Where the ranks that share `key` (a rank table's content, a launcher's job id) meet."""
    return os.path.join(runtime_dir(), sha256(key.encode()).hexdigest()[:32] + ".sock")


def listen(path: str) -> socket.socket | None:
    """A socket that listens at `path`, or None where another rank was faster.

    A lock on the folder decides; a socket file whose listener has died is taken over.
    """
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        if _answers(path):
            return None
        _remove_dead(os.path.dirname(path))
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        listener.listen(_BACKLOG)
        return listener
    finally:
        os.close(folder)


def _remove_dead(folder: str) -> None:
    """Remove sockets whose listeners were killed; whoever makes a new one holds the folder's lock."""
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if name.endswith(".sock") and not _answers(path):
            _remove(path)


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            return False
    return True


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
