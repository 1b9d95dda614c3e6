"""Ranks of one host that no supervisor of ours started: they find each other by a key."""

from __future__ import annotations

import atexit
import os
import select
import socket
import threading
import time

from .arena import Arena
from .channel import Channel, ChannelClosed, ChannelSilent
from .errors import RankFailed, UsageError, error_named
from .hub import Hub
from .local_socket import credentials, listen, remove_stale, socket_path
from .messages import Failed, Join, Joined, Message
from .progress import Progress, Stage
from .rank import Rank
from .rendezvous import ChannelMeeting

_RETRY = 0.01
_LEAVING = 1.0
"""Seconds for which the last job with the same key may still be about to end."""

_GRACE = 0.5
"""Seconds by which the others outwait who serves, which keeps the deadline and knows who is late."""


def meet_locally(rank: Rank, key: str, timeout: float) -> ChannelMeeting:
    """Meet the other ranks of this host that have the same `key`; the first to come serves.

    Returns when all are there. Raises UsageError where another job with this key runs, RankFailed where
    somebody does not come within `timeout` seconds (0: wait for ever) of the first.
    """
    channel, arena, server = _join(rank, key, timeout)
    meeting = ChannelMeeting(rank, channel, arena, timeout, f"{server}, which brings the ranks together,")
    pids = [int(payload) for payload in meeting.exchange(str(os.getpid()).encode())]
    watch_processes({pid: r for r, pid in enumerate(pids) if r != rank.rank}, arena)
    return meeting


def join_locally(rank: Rank, key: str, timeout: float) -> tuple[Channel, Arena]:
    """The first half of `meet_locally`: the way to who serves, and the arena; waits for no other rank."""
    return _join(rank, key, timeout)[:2]


def _join(rank: Rank, key: str, timeout: float) -> tuple[Channel, Arena, str]:
    path = socket_path(key)
    deadline, refused_until = time.monotonic() + (timeout or 60.0), time.monotonic() + _LEAVING
    while True:
        sock = _connect(rank, path, timeout)
        if sock is not None:
            answer, channel, fds = _ask(rank, sock, timeout)
            if isinstance(answer, Joined) and fds:
                atexit.register(remove_stale, path)
                return channel, Arena.attach(fds[0], rank.rank), answer.where
            channel.close()
            if isinstance(answer, Failed) and time.monotonic() > refused_until:
                raise error_named(answer.error, answer.text)
        if time.monotonic() > deadline:
            raise RankFailed(f"{rank}: cannot reach the rank that serves this job at {path}")
        time.sleep(_RETRY)


def _ask(rank: Rank, sock: socket.socket, timeout: float) -> tuple[Message | None, Channel, list[int]]:
    """Ask to join; no answer from who ends just now."""
    process, uid = credentials(sock)
    if uid != os.geteuid():
        sock.close()
        raise UsageError(f"{rank}: process {process}, which serves this job, belongs to user {uid}, expected "
                         f"{os.geteuid()}: start all ranks as one user.")
    sock.settimeout(timeout + _GRACE if timeout else None)
    channel = Channel(sock)
    try:
        channel.send(Join(rank.rank, rank.world_size))
        answer, fds = channel.receive_with_fds()
    except ChannelSilent as error:
        raise RankFailed(f"{rank}: process {process}, which serves this job, does not answer: it may be stopped or "
                         f"stuck") from error
    except ChannelClosed:
        return None, channel, []
    return answer, channel, fds


def _connect(rank: Rank, path: str, timeout: float) -> socket.socket | None:
    """Connect to whoever serves, or begin to serve; None between a listener's death and the next one."""
    for serve in (True, False):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(path)
            return sock
        except (FileNotFoundError, ConnectionRefusedError):
            sock.close()
        listener = listen(path) if serve else None
        if listener is not None:
            Hub(listener, path, rank, timeout).start()
    return None


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
