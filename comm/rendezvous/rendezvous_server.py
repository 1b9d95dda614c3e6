"""Rendezvous server: serves the ranks of one host that no supervisor started, over a local socket.

The first rank to come listens, and serves all ranks, itself too, from a thread. It hands out the
arena, relays exchanges, and refuses a second job with the same key.
"""

from __future__ import annotations

import atexit
import os
import selectors
import socket
import threading
import time
from contextlib import suppress
from typing import NamedTuple, NoReturn

from ..job.rank import Rank
from ..job_memory.arena import Arena, Cause
from ..job_memory.progress import Progress, Stage
from ..sharing.refusals import Refusals
from ..text import counted
from ..transport.channel import Channel
from ..transport.local_socket import credentials, unlink
from ..transport.message_stream import LONGEST, ChannelClosed, ChannelGarbled
from ..transport.messages import Exchange, Exchanged, Failed, Join, Joined, Message
from ..transport.newcomers import CROWDED, SILENT, Newcomers
from .relay import Relay

_LONGEST_JOIN = 1 << 16
"""Bytes of a message from a process that has not joined."""

_MOST_NEWCOMERS = 64
"""Connections that have not joined, beside one for each rank."""

_PAUSE = 0.05
"""Seconds until the next try where no descriptor is free."""

_SENDING = 5.0
"""Seconds in which a rank must take a message, for it may be stopped."""


class _Newcomer(NamedTuple):
    """A connection that has not joined, and its process."""

    channel: Channel
    pid: int


class RendezvousServer:
    """Serves the ranks of one job, on behalf of one of them; `start` returns at once."""

    def __init__(self, listener: socket.socket, path: str, rank: Rank, timeout: float) -> None:
        self._listener = listener
        self._path = path
        self._rank = rank
        self._process = os.getpid()
        self._arena = Arena.create(rank.world_size)
        self._relay = Relay(rank.world_size, timeout)
        self._selector = selectors.DefaultSelector()
        self._members: dict[int, tuple[Channel, int]] = {}
        self._newcomers = Newcomers[_Newcomer](_MOST_NEWCOMERS + rank.world_size)
        self._ended: dict[int, str] = {}
        self._refusals = Refusals("a job's connection refused")

    def start(self) -> None:
        """Serve from a thread, until the process ends or all members have left."""
        atexit.register(self._remove)
        os.register_at_fork(after_in_child=self._let_go)
        threading.Thread(target=self._serve, name="rankmesh-rendezvous", daemon=True).start()

    def _serve(self) -> None:
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        try:
            while True:
                for key, _ in self._selector.select(self._next_timeout()):
                    if self._selector.get_map().get(key.fd) is key:  # it may be closed meanwhile
                        key.data()
                self._check_deadline()
                for late in self._newcomers.late():
                    self._send_away(late, SILENT)
                self._refusals.report()
        except _Finished:
            return
        finally:  # ranks must not wait for the answer of a thread that has ended
            self._let_go()
            self._arena.close()
            self._remove()

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:  # the process has left already, or no descriptor is free
            self._make_room()
            return
        pid, uid = credentials(sock)
        if uid != os.getuid():
            sock.close()
            return
        sock.settimeout(_SENDING)
        channel = Channel(sock, _LONGEST_JOIN)
        self._selector.register(channel, selectors.EVENT_READ, lambda: self._read(channel, pid))
        crowding = self._newcomers.add(_Newcomer(channel, pid))
        if crowding is not None:
            self._send_away(crowding, CROWDED)

    def _make_room(self) -> None:
        oldest = self._newcomers.oldest()
        if oldest is None:
            time.sleep(_PAUSE)
        else:
            self._send_away(oldest, CROWDED)

    def _send_away(self, newcomer: _Newcomer, reason: str) -> None:
        """Close a connection that has not joined, and tell it why."""
        channel, pid = newcomer
        self._refusals.add(pid, os.getuid(), reason)
        with suppress(ChannelClosed):
            channel.send(Failed("UsageError", f"{self._name()} has closed a connection: {reason}."))
        self._leave(channel, pid, "")

    def _next_timeout(self) -> float | None:
        report = 1.0 if self._refusals.pending else None
        waits = (self._relay.next_timeout(), self._newcomers.next_timeout(), report)
        return min((one for one in waits if one is not None), default=None)

    def _name(self) -> str:
        return f"rank {self._rank.rank} (process {self._process})"

    def _read(self, channel: Channel, pid: int) -> None:
        try:
            for message in channel.receive_ready():
                self._handle(channel, pid, message)
        except ChannelClosed as error:
            if isinstance(error, ChannelGarbled):
                self._refusals.add(pid, os.getuid(), str(error))
            self._leave(channel, pid, str(error) if isinstance(error, ChannelGarbled) else "")

    def _handle(self, channel: Channel, pid: int, message: Message) -> None:
        if isinstance(message, Join):
            self._join(channel, pid, message)
            return
        rank = self._rank_of(channel)
        if isinstance(message, Exchange) and rank is not None:
            payloads = self._relay.give(rank, message.payload)
            if payloads is not None:
                self._tell_all(Exchanged(payloads))
            self._check_round()

    def _join(self, channel: Channel, pid: int, join: Join) -> None:
        size = self._rank.world_size
        if self._rank_of(channel) is not None:
            raise ChannelGarbled("wanted to join twice")
        if join.world_size != size or not 0 <= join.rank < size:
            _refuse(
                channel,
                f"rank {join.rank} of {join.world_size} came to a job of {counted(size, 'rank')}: "
                "start all with the same rank table.",
            )
        elif self._taken(join.rank, pid):
            running = {
                self._rank.rank: self._process,
                **{r: p for r, (_, p) in self._members.items()},
            }
            pids = ", ".join(f"rank {r} is process {p}" for r, p in sorted(running.items()))
            verb = "ran" if join.rank in self._ended else "runs"
            _refuse(
                channel,
                f"rank {join.rank} of this job {verb} already ({pids}). A second job with the same "
                "rank table or job id must wait until the first ends.",
            )
        else:
            self._members[join.rank] = (channel, pid)
            channel.longest = LONGEST
            self._newcomers.remove(_Newcomer(channel, pid))
            channel.send_with_fd(Joined(self._name()), self._arena.fd)

    def _taken(self, rank: int, pid: int) -> bool:
        """Whether a rank is not free.

        The rank of this process is kept for it, though another process may ask first.
        """
        kept = rank == self._rank.rank and pid != self._process
        return kept or rank in self._members or rank in self._ended

    def _leave(self, channel: Channel, pid: int, fault: str) -> None:
        self._newcomers.remove(_Newcomer(channel, pid))
        self._selector.unregister(channel)
        channel.close()
        rank = self._rank_of(channel)
        if rank is None:
            return
        del self._members[rank]
        progress = Progress(self._arena, rank)
        self._ended[rank] = (
            f"rank {rank} (process {pid}) {fault or f'ended while it {progress.read()}'}"
        )
        self._relay.leave(rank)
        progress.stage = Stage.ENDED  # ranks that wait for it in a collective see that
        self._check_round()
        if not self._members:
            raise _Finished

    def _rank_of(self, channel: Channel) -> int | None:
        return next(
            (rank for rank, (member, _) in self._members.items() if member is channel), None
        )

    def _check_round(self) -> None:
        """Fail an exchange that waits for a rank which has ended."""
        rank = self._relay.broken_by
        if rank is not None:
            self._tell_all(Failed("RankFailed", self._ended[rank]))

    def _tell_all(self, message: Message) -> None:
        """Send to the rank of this process last: it may end the process at once."""
        for _, (channel, _) in sorted(
            self._members.items(), key=lambda member: member[0] == self._rank.rank
        ):
            try:
                channel.send(message)
            except ChannelClosed:
                continue  # its end of file is on the way

    def _check_deadline(self) -> None:
        if self._relay.next_timeout() != 0.0:
            return
        late = self._relay.late()
        absent = f"never came (expected on {self._rank.host})"
        said = ", ".join(
            f"rank {r} {Progress(self._arena, r).read() if r in self._members else absent}"
            for r in late
        )
        text = f"the ranks waited {self._relay.timeout:g} s for each other: {said}"
        self._arena.abort(late[0], Cause.LATE, text)
        self._tell_all(Failed("RankFailed", text))
        raise _Finished

    def _let_go(self) -> None:
        """Close all connections.

        A forked child does so too: in it, they would make the job seem to go on.
        """
        for channel, _ in (*self._members.values(), *self._newcomers):
            channel.close()
        self._selector.close()
        self._listener.close()

    def _remove(self) -> None:
        """Remove the socket, once: another job may have made its own under that name since."""
        if os.getpid() == self._process:
            atexit.unregister(self._remove)
            unlink(self._path)


def _refuse(channel: Channel, reason: str) -> NoReturn:
    """Refuse a process that wanted to join, and end its connection.

    A process that reads nothing must not fill the connection.
    """
    channel.send(Failed("UsageError", reason))
    raise ChannelClosed


class _Finished(Exception):
    """The server has no ranks left to serve."""
