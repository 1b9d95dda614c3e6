"""Ranks of one host that no supervisor of ours started: they find each other by a key."""

from __future__ import annotations

import os
import select
import socket
import threading
import time

from .arena import Arena
from .channel import Channel
from .errors import RankFailed, error_named
from .hub import Hub, listen, socket_path
from .messages import Failed, Join, Joined
from .progress import Progress, Stage
from .rank import Rank
from .rendezvous import ChannelMeeting

_RETRY = 0.01


def meet_locally(rank: Rank, key: str, timeout: float) -> ChannelMeeting:
    """Meet the other ranks of this host that have the same `key`; the first to come serves.

    Returns when all are there. Raises UsageError where another job with this key runs, RankFailed where
    somebody does not come within `timeout` seconds (0: wait for ever) of the first.
    """
    channel, arena = join_locally(rank, key, timeout)
    meeting = ChannelMeeting(rank, channel, arena, timeout)
    pids = [int(payload) for payload in meeting.exchange(str(os.getpid()).encode())]
    watch_processes({pid: r for r, pid in enumerate(pids) if r != rank.rank}, arena)
    return meeting


def join_locally(rank: Rank, key: str, timeout: float) -> tuple[Channel, Arena]:
    """The first half of `meet_locally`: the way to who serves, and the arena; waits for nobody."""
    channel = Channel(_connect(rank, socket_path(key), timeout))
    channel.send(Join(rank.rank, rank.world_size))
    answer, fd = channel.receive_with_fd()
    if isinstance(answer, Failed):
        raise error_named(answer.error, answer.text)
    if not isinstance(answer, Joined) or fd is None:
        raise RankFailed(f"{rank}: the rank that serves this job answered with {type(answer).__name__}")
    return channel, Arena.attach(fd, rank.rank)


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
                Hub(listener, path, rank.world_size, timeout).start()
            elif time.monotonic() > deadline:
                raise RankFailed(f"{rank}: cannot reach the rank that serves this job at {path}") from error
            else:
                time.sleep(_RETRY)


def watch_processes(ranks_by_pid: dict[int, int], arena: Arena) -> None:
    """Note in the arena which ranks have ended, whoever serves and however they end."""
    poll = select.poll()
    ranks_by_fd: dict[int, int] = {}
    for pid, rank in ranks_by_pid.items():
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            Progress(arena, rank).stage = Stage.ENDED
            continue
        poll.register(fd, select.POLLIN)
        ranks_by_fd[fd] = rank

    def wait() -> None:
        while ranks_by_fd:
            for fd, _ in poll.poll():
                Progress(arena, ranks_by_fd.pop(fd)).stage = Stage.ENDED
                poll.unregister(fd)
                os.close(fd)

    threading.Thread(target=wait, name="rankmesh-watch", daemon=True).start()
