"""Attachment: the connection of a process that holds an owner's shared memory, or updates it."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import TypeVar

import msgspec

from ..errors import UsageError
from ..host.secrecy import close_to_others
from ..transport.local_socket import connect, credentials, socket_paths
from ..transport.message_stream import receive
from .lease import Lease
from .messages import (
    LONGEST,
    MOST_FILES,
    Attach,
    BrokerReply,
    BrokerRequest,
    Done,
    Granted,
    Hello,
    Identified,
    Identify,
    More,
    ProofExchange,
    Proven,
    Refused,
    Update,
    broker_path,
    decode_reply,
    encode,
    nonce,
    proof,
    proves,
)

_Answer = TypeVar("_Answer", Done, Identified)
_MOST_FDS = 253
_ANSWER = 10.0
"""Seconds that an owner has to answer; it takes well under a millisecond."""


class Attachment:
    """A held connection; while it is open the owner counts this process among the holders.

    `fds` are the read-only descriptors so far; `slot` is this process's number among the holders;
    `lease` tells the owner which version of the memory this process computes with.
    """

    def __init__(self, handle: int, model: str, device: str) -> None:
        """Ask the owner of `handle`. Raises UsageError with its reason, or where it is gone."""
        close_to_others()
        self._socket = _connect(broker_path(handle), _ANSWER)
        self.fds: list[int] = []
        self.owner, _ = credentials(self._socket)
        try:
            exchange = self._meet(handle)
            self.slot, self.lease = self._attach(
                Attach(proof(handle, "user", exchange), model, device)
            )
        except BaseException:
            self.close()
            raise

    def fetch(self) -> None:
        """Take the files that the owner has published since."""
        count = MOST_FILES
        while count == MOST_FILES:
            _, fds = self._granted(More(len(self.fds)))
            self.fds += fds
            count = len(fds)

    def close(self) -> None:
        """Close the descriptors and the connection; mappings stay."""
        self._socket.close()
        while self.fds:
            os.close(self.fds.pop())

    def _meet(self, handle: int) -> ProofExchange:
        """Have the other process prove that it knows the handle: it may have taken the owner's
        place.
        """
        mine = nonce()
        reply, fds = _ask(self._socket, Hello(mine), self.owner)
        _close(fds)
        if not isinstance(reply, Proven):
            raise self._odd(reply, fds)
        exchange = ProofExchange(mine, reply.nonce, reply.owner, reply.user)
        between_us = not self.owner or (reply.owner, reply.user) == (
            self.owner,
            os.getpid(),
        )  # 0: of a namespace above
        if not between_us or not proves(reply.proof, handle, "owner", exchange):
            raise UsageError(
                f"process {self.owner} listens where the owner of these weights should, and does "
                "not prove that it knows their handle: it is another process, and gets nothing "
                "from this one. End it, and build the owner anew."
            )
        return exchange

    def _attach(self, request: Attach) -> tuple[int, Lease]:
        reply, (lease, *fds) = self._granted(request, leases=1)
        try:
            held = Lease(lease)
        finally:
            os.close(lease)
        self.fds += fds
        if reply.files == MOST_FILES:
            self.fetch()
        return reply.slot, held

    def _granted(self, request: Attach | More, leases: int = 0) -> tuple[Granted, list[int]]:
        reply, fds = _ask(self._socket, request, self.owner)
        if isinstance(reply, Granted) and reply.files + leases == len(fds):
            return reply, fds
        _close(fds)
        raise self._odd(reply, fds)

    def _odd(self, reply: BrokerReply, fds: list[int]) -> UsageError:
        return UsageError(
            f"process {self.owner}, the owner of the weights, answered {reply} with {len(fds)} "
            "descriptors: run both with the same version of Rankmesh."
        )


def ask_for_rank(pid: int) -> int:
    """The rank that the owner `pid` is. Raises UsageError where `pid` shares no weights."""
    return _ask_owner(pid, Identify(), Identified, _ANSWER).rank


def ask_for_update(pid: int, fd: int, request: Update, timeout: float) -> str:
    """Ask the owner `pid`, a process of this user, to take the weights in the open file `fd`.

    Returns what it did. `timeout` is in seconds. Raises UsageError with the owner's reason, or
    where `pid` shares no weights.
    """
    return _ask_owner(pid, request, Done, timeout, [fd]).text


def _ask_owner(
    pid: int,
    request: BrokerRequest,
    kind: type[_Answer],
    timeout: float,
    send: list[int] | None = None,
) -> _Answer:
    """The answer, of this kind, of the process `pid`, which shares weights."""
    for path in socket_paths():
        try:
            sock = _connect(path, 0.0)  # most listeners are others
        except (OSError, UsageError):
            continue
        with sock:
            if credentials(sock)[0] != pid:
                continue
            sock.settimeout(timeout)
            reply, fds = _ask(sock, request, pid, send)
            _close(fds)
            if isinstance(reply, kind):
                return reply
    raise UsageError(
        f"process {pid} shares no weights (as user {os.getuid()}): give the process that built the "
        "model with shareable_weight_pid_list."
    )


def _connect(path: str, patience: float) -> socket.socket:
    """A connection to the listening process, which is of this user.

    Raises UsageError where there is none, or where it takes none for `patience` seconds.
    """
    try:
        sock = connect(path, patience, socket.SOCK_SEQPACKET)
    except TimeoutError as error:
        raise UsageError(f"the weights' owner does not answer: {error}.") from error
    except (FileNotFoundError, ConnectionRefusedError):
        raise UsageError(
            "no process shares weights under this handle: its owner has ended or closed the model, "
            "or is in another container or of another user. Build the owner first, and keep it "
            "running."
        ) from None
    sock.settimeout(_ANSWER)
    pid, uid = credentials(sock)
    if uid != os.geteuid():
        sock.close()
        raise UsageError(
            f"process {pid}, which shares weights at {path}, belongs to user {uid}, expected "
            f"{os.geteuid()}: weights are shared by processes of one user."
        )
    return sock


def _close(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)


def _ask(
    sock: socket.socket, request: BrokerRequest, owner: int, send: list[int] | None = None
) -> tuple[BrokerReply, list[int]]:
    """Send one request; returns the answer and its descriptors.

    Raises UsageError where the request is refused, or the owner ends or does not answer.
    """
    try:
        with suppress(
            BrokenPipeError, ConnectionResetError
        ):  # what it said before it hung up can still be read
            socket.send_fds(sock, [encode(request)], send or [])
        data, fds = _receive(sock)
    except TimeoutError:
        raise UsageError(
            f"process {owner}, the owner of the weights, did not answer within "
            f"{sock.gettimeout():g} s: it may be stopped."
        ) from None
    if not data:
        raise UsageError(
            f"process {owner}, the owner of the weights, closed the connection: it has ended, or "
            "refuses this process (its log says why)."
        )
    try:
        reply = decode_reply(data)
    except msgspec.DecodeError as error:
        raise UsageError(
            f"process {owner}, the owner of the weights, sent no answer that this version reads: "
            f"{error}."
        ) from error
    if isinstance(reply, Refused):
        raise UsageError(
            f"process {owner}, the owner of the weights, refuses: {reply.reason.rstrip('.')}."
        )
    return reply, fds


def _receive(sock: socket.socket) -> tuple[bytes, list[int]]:
    """The next packet and its descriptors; nothing at the end of the connection."""
    for _ in range(
        2
    ):  # an unread request of ours makes the first call fail, and the second give the last packet
        try:
            data, fds, _ = receive(sock, LONGEST, _MOST_FDS)
        except ConnectionResetError:
            continue
        return data, fds
    return b"", []
