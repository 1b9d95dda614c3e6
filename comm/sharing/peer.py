"""Peers of a broker: one connection, and all of them."""

from __future__ import annotations

import errno
import os
import select
import socket
import time
from collections.abc import Iterator, Sequence

import msgspec

from ..transport.local_socket import credentials
from ..transport.message_stream import receive, send
from .lease import Lease
from .messages import (
    LONGEST,
    Attach,
    BrokerReply,
    BrokerRequest,
    Hello,
    ProofExchange,
    Proven,
    Refused,
    decode_request,
    encode,
    nonce,
    proof,
    proves,
)

MOST = 1024
"""Connections that a broker keeps."""

_SO_PEERPIDFD = 77
_MOST_REQUESTS = 100
"""Requests of one peer in one second; more is a flood."""

_LONGEST_REASON = 900


class PeerGone(Exception):
    """The peer has left or is sent away: its connection is of no further use."""


class Peer:
    """A connected process. Sends never wait: a peer that does not receive is sent away.

    `slot` is its number among the holders of the weights, and `lease` tells the version that it
    computes with; both are None until it has received the weights.
    """

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        sock.setblocking(False)
        self._socket = sock
        self.pid, self.uid = credentials(sock)
        self.deadline = deadline
        self.slot: int | None = None
        self.lease: Lease | None = None
        self._second = 0
        self._requests = 0
        self._exchange: ProofExchange | None = None

    def fileno(self) -> int:
        """The descriptor, for selectors."""
        return self._socket.fileno()

    def connected_by_living(self) -> bool:
        """Whether the process that connected still lives, as far as this kernel tells.

        Linux tells it from 6.5 on. Most kernels give no pidfd of a process that has been waited
        for, and none gives one where no descriptor is left.
        """
        try:
            handle = self._socket.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
        except OSError as error:
            return error.errno == errno.ENOPROTOOPT
        ended = select.poll()
        ended.register(handle, select.POLLIN)
        try:
            return not ended.poll(0)
        finally:
            os.close(handle)

    def receive(self) -> tuple[BrokerRequest, int | None]:
        """The next request and the descriptor that came with it, which the caller closes.

        Raises BlockingIOError where none is there yet, and PeerGone at the end.
        """
        try:
            data, fds, flags = receive(self._socket, LONGEST, 1, socket.MSG_DONTWAIT)
        except BlockingIOError:
            raise
        except OSError as error:
            raise PeerGone from error
        handle = fds[0] if fds else None
        try:
            if not data:
                raise PeerGone
            self._count()
            if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
                raise self.refused(f"a request has at most {LONGEST} bytes and one descriptor")
            return decode_request(data), handle
        except (msgspec.DecodeError, PeerGone) as error:
            if handle is not None:
                os.close(handle)
            if isinstance(error, PeerGone):
                raise
            raise self.refused(f"what came is no request: {error}") from error

    def prove(self, handle: int, request: Hello) -> None:
        """Prove to the peer that this process knows `handle`, and ask for its proof.

        Raises PeerGone.
        """
        exchange = ProofExchange(request.nonce, nonce(), os.getpid(), self.pid)
        self._exchange = exchange
        mine = proof(handle, "owner", exchange)
        self.send(Proven(exchange.owner_nonce, exchange.owner, exchange.user, mine))

    def has_proved(self, handle: int, request: Attach) -> bool:
        """Whether the peer has proved that it knows `handle`; once after each `prove`."""
        exchange, self._exchange = self._exchange, None
        return exchange is not None and proves(request.proof, handle, "user", exchange)

    def send(self, reply: BrokerReply, fds: Sequence[int] = ()) -> None:
        """Send at once. Raises PeerGone where the peer does not receive."""
        try:
            send(self._socket, encode(reply), fds, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except OSError as error:
            raise PeerGone from error

    def refused(self, reason: str) -> PeerGone:
        """Send the peer a refusal; returns the exception to raise."""
        self.send(Refused(reason[:_LONGEST_REASON]))
        return PeerGone(reason)

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def _count(self) -> None:
        second = int(time.monotonic())
        self._requests = self._requests + 1 if second == self._second else 1
        self._second = second
        if self._requests > _MOST_REQUESTS:
            raise self.refused(f"more than {_MOST_REQUESTS} requests in a second")


class Peers:
    """The connections of a broker. Several threads add and close, so every look is at a copy."""

    def __init__(self) -> None:
        self._peers: set[Peer] = set()

    def __iter__(self) -> Iterator[Peer]:
        return iter(list(self._peers))

    def __len__(self) -> int:
        return len(self._peers)

    def add(self, peer: Peer) -> None:
        """Add an admitted process."""
        self._peers.add(peer)

    def close(self, peer: Peer) -> None:
        """End a connection; may be called again."""
        self._peers.discard(peer)
        peer.close()

    def holders(self) -> list[int]:
        """The processes that hold the weights now, ascending."""
        return sorted(peer.pid for peer in self if peer.slot is not None)

    def holding_older(self, version: int) -> list[int]:
        """The processes that compute with weights before `version`."""
        return sorted(peer.pid for peer in self if peer.lease and peer.lease.holds_older(version))

    def slots(self) -> set[int]:
        """The numbers of the holders."""
        return {peer.slot for peer in self if peer.slot is not None}

    def free_slot(self) -> int:
        """The lowest number that no holder has."""
        taken = self.slots()
        return next(number for number in range(MOST) if number not in taken)

    def strangers(self) -> int:
        """How many peers have not shown yet that they may have the weights."""
        return sum(peer.slot is None for peer in self)

    def of(self, pid: int) -> int:
        """How many connections a process has."""
        return sum(peer.pid == pid for peer in self)

    def next_deadline(self) -> float | None:
        """The first deadline of a peer that owes a request, by the monotonic clock."""
        return min((peer.deadline for peer in self if peer.deadline), default=None)

    def late(self, now: float) -> list[Peer]:
        """The peers whose deadline has passed."""
        return [peer for peer in self if peer.deadline and peer.deadline <= now]
