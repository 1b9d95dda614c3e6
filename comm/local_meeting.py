"""Ranks of one host that no supervisor of ours started: they find each other by a key."""

from __future__ import annotations

import os
import select
import socket
import threading
import time

from .arena import Arena, Cause
from .channel import Channel
from .errors import RankFailed, error_named
from .hub import Hub, listen, socket_path
from .messages import Failed, Join, Joined
from .rank import Rank
from .rendezvous import ChannelMeeting

_RETRY = 0.01


def meet_locally(rank: Rank, key: str, timeout: float) -> ChannelMeeting:
    """Meet the other ranks of this host that have the same `key`; the first to come serves.

    Returns as soon as this rank is in; exchanges wait for the others. Raises UsageError where another job with
    this key runs, RankFailed where the serving rank cannot be reached.
    """
    channel = Channel(_connect(rank, socket_path(key), timeout))
    channel.send(Join(rank.rank, rank.world_size))
    answer, fd = channel.receive_with_fd()
    if isinstance(answer, Failed):
        raise error_named(answer.error, answer.text)
    if not isinstance(answer, Joined) or fd is None:
        raise RankFailed(f"{rank}: the rank that serves this job answered with {type(answer).__name__}")
    arena = Arena.attach(fd, rank.rank)
    if answer.pid != os.getpid():
        _watch(answer, arena)
    return ChannelMeeting(rank, channel, arena, timeout)


def _connect(rank: Rank, path: str, timeout: float) -> socket.socket:
    """Connect to whoever serves, or serve: between a listener's death and the next one there is nobody."""
    deadline = time.monotonic() + (timeout or 60.0)
    while True:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(path)
            return sock
        except (FileNotFoundError, ConnectionRefusedError) as error:
            sock.close()
            listener = listen(path)
            if listener is not None:
                Hub(listener, path, rank.rank, rank.world_size, timeout).start()
            elif time.monotonic() > deadline:
                raise RankFailed(f"{rank}: cannot reach the rank that serves this job at {path}") from error
            else:
                time.sleep(_RETRY)


def _watch(served_by: Joined, arena: Arena) -> None:
    """End this rank's collectives when the process that serves (and would tell of deaths) dies itself."""

    def wait() -> None:
        try:
            pidfd = os.pidfd_open(served_by.pid)
        except ProcessLookupError:
            pass  # dead already
        else:
            poll = select.poll()
            poll.register(pidfd, select.POLLIN)
            poll.poll()
            os.close(pidfd)
        arena.abort(served_by.rank, Cause.DIED, f"rank {served_by.rank} (process {served_by.pid}) ended")

    threading.Thread(target=wait, name="rankmesh-watch", daemon=True).start()
