"""Rendezvous over local sockets: ranks of one host without a supervisor meet by a key."""

from __future__ import annotations

import atexit
import os
import socket
import time

from ..errors import RankFailed, UsageError, error_named
from ..job.rank import Rank
from ..job_memory.arena import Arena
from ..job_memory.host_peers import meet_host_peers, watch_processes
from ..transport.channel import Channel
from ..transport.local_socket import connect, credentials, listen, remove_stale, socket_path
from ..transport.message_stream import ChannelClosed, ChannelSilent
from ..transport.messages import Failed, Join, Joined, Message
from .rendezvous import ChannelRendezvous
from .rendezvous_server import RendezvousServer

_RETRY = 0.01
_LEAVING = 1.0
"""Seconds for which the last job with the same key may still be about to end."""

_GRACE = 0.5
"""Seconds that ranks wait longer than the serving one, which names the late ranks."""


def meet_locally(rank: Rank, key: str, timeout: float) -> ChannelRendezvous:
    """Meet the other ranks of this host that have the same `key`; the first to come serves.

    Returns when all are there. Raises UsageError where another job with this key runs. Raises
    RankFailed where a rank does not come within `timeout` seconds (0: no limit) of the first.
    """
    channel, arena, server = join_locally(rank, key, timeout)
    rendezvous = ChannelRendezvous(
        rank, channel, arena, timeout, f"{server}, which brings the ranks together,"
    )
    pids = meet_host_peers(rendezvous.exchange, arena)
    watch_processes({r: pid for r, pid in pids.items() if r != rank.rank}, arena)
    return rendezvous


def join_locally(rank: Rank, key: str, timeout: float) -> tuple[Channel, Arena, str]:
    """Join the rendezvous server of `key`, without waiting for another rank.

    Returns the channel to the server, the arena of the job, and the name of the serving rank.
    """
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
            raise RankFailed(
                f"{rank}: cannot reach the rank that serves this job at {path}: it may be stopped "
                "or stuck"
            )
        time.sleep(_RETRY)


def _ask(
    rank: Rank, sock: socket.socket, timeout: float
) -> tuple[Message | None, Channel, list[int]]:
    """Ask to join; the answer is None from a process that ends just now."""
    process, uid = credentials(sock)
    if uid != os.geteuid():
        sock.close()
        raise UsageError(
            f"{rank}: process {process}, which serves this job, belongs to user {uid}, expected "
            f"{os.geteuid()}: start all ranks as one user."
        )
    sock.settimeout(timeout + _GRACE if timeout else None)
    channel = Channel(sock)
    try:
        channel.send(Join(rank.rank, rank.world_size))
        answer, fds = channel.receive_with_fds()
    except ChannelSilent as error:
        raise RankFailed(
            f"{rank}: process {process}, which serves this job, does not answer: it may be stopped "
            "or stuck"
        ) from error
    except ChannelClosed:
        return None, channel, []
    return answer, channel, fds


def _connect(rank: Rank, path: str, timeout: float) -> socket.socket | None:
    """Connect to the rendezvous server, or begin to serve.

    None between the death of a server and the start of the next, and where it takes no connection.
    """
    for serve in (True, False):
        try:
            return connect(path, 0.0)
        except TimeoutError:
            return None
        except (FileNotFoundError, ConnectionRefusedError):
            pass  # no rank serves yet
        listener = listen(path) if serve else None
        if listener is not None:
            RendezvousServer(listener, path, rank, timeout).start()
    return None
