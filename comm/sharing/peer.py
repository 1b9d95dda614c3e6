"""One connection to a broker, from the broker's side."""

from __future__ import annotations

import errno
import os
import select
import socket
import time
from collections.abc import Sequence

import msgspec

from ..local_socket import credentials
from ..passed_descriptors import receive, send
from .handle import Exchange, nonce, proof, proves
from .lease import Lease
from .messages import LONGEST, Attach, Hello, Proven, Refused, Reply, Request, decode_request, encode

_SO_PEERPIDFD = 77
_MOST_REQUESTS = 100
"""In one second, of one peer; more is a flood."""


class PeerGone(Exception):
    """The peer has left, or is sent away: its connection is of no use any more."""


class Peer:
    """A connected process. Sends never wait: a peer that takes nothing is sent away."""

    slot: int | None = None
    """Its number among those that hold the weights."""

    lease: Lease | None = None
    """Where it says which version of them it computes with."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        sock.setblocking(False)
        self._socket = sock
        self.pid, self.uid = credentials(sock)
        self.deadline = deadline
        self._second, self._requests = 0, 0
        self._exchange: Exchange | None = None

    def fileno(self) -> int:
        """The descriptor, for selectors."""
        return self._socket.fileno()

    def connected_by_living(self) -> bool:
        """Whether the process that connected still lives, as far as this kernel tells (Linux 6.5 and later).

        Of a process that has been waited for, most kernels give no pidfd, and of any where no descriptor is left.
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

    def receive(self) -> tuple[Request, int | None]:
        """The next request and the descriptor that came with it, which the caller closes.

        BlockingIOError where none is there yet; PeerGone at the end.
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
        """Prove to the peer that this process knows `handle`, and ask for its proof. Raises PeerGone."""
        self._exchange = Exchange(request.nonce, nonce(), os.getpid(), self.pid)
        _, mine, owner, user = self._exchange
        self.send(Proven(mine, owner, user, proof(handle, "owner", self._exchange)))

    def has_proved(self, handle: int, request: Attach) -> bool:
        """Whether the peer knows `handle`, too; for one request after each `prove`."""
        exchange, self._exchange = self._exchange, None
        return exchange is not None and proves(request.proof, handle, "user", exchange)

    def send(self, reply: Reply, fds: Sequence[int] = ()) -> None:
        """Send at once, or send the peer away."""
        try:
            send(self._socket, encode(reply), fds, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except OSError as error:
            raise PeerGone from error

    def refused(self, reason: str) -> PeerGone:
        """Tell the peer no; what to raise."""
        self.send(Refused(reason[:900]))
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
