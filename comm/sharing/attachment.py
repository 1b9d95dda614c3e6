"""The other end of a broker: a process that holds an owner's shared memory, or updates it."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from types import TracebackType
from typing import TypeVar

import msgspec

from ..errors import UsageError
from ..local_socket import credentials, socket_paths
from ..passed_descriptors import receive
from .handle import Exchange, broker_path, nonce, proof, proves
from .lease import Lease
from .messages import (
    LONGEST,
    MOST_FILES,
    Attach,
    Done,
    Granted,
    Hello,
    Identified,
    Identify,
    More,
    Proven,
    Refused,
    Reply,
    Request,
    Update,
    decode_reply,
    encode,
)
from .undumpable import close_to_others

_Answer = TypeVar("_Answer", Done, Identified)
_MOST_FDS = 253
_ANSWER = 10.0
"""Seconds that an owner has to answer; it takes well under a millisecond."""


class Attachment:
    """A held connection; while it is open the owner counts this process among those that hold its memory.

    `fds` are the read-only descriptors so far; `slot` is this process's number among the holders; `lease` is where
    it says which version of the memory it computes with.
    """

    def __init__(self, handle: int, model: str, device: str) -> None:
        """Ask the owner of `handle`. Raises UsageError with its reason, or where there is no such owner."""
        close_to_others()
        self._socket = _connect(broker_path(handle))
        self.fds: list[int] = []
        self.owner, _ = credentials(self._socket)
        try:
            exchange = self._meet(handle)
            self.slot, self.lease = self._attach(Attach(proof(handle, "user", exchange), model, device))
        except BaseException:
            self.close()
            raise

    def fetch(self) -> None:
        """Take the files that the owner has published since."""
        while self._take(More(len(self.fds))) == MOST_FILES:
            pass

    def __enter__(self) -> Attachment:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Give up the descriptors and the place among the holders; mappings stay."""
        self._socket.close()
        while self.fds:
            os.close(self.fds.pop())

    def _meet(self, handle: int) -> Exchange:
        """Have the process at the other end prove that it knows the handle: another one may have taken its place."""
        mine = nonce()
        reply, fds = _ask(self._socket, Hello(mine), self.owner)
        _close(fds)
        if not isinstance(reply, Proven):
            raise self._odd(reply, fds)
        exchange = Exchange(mine, reply.nonce, reply.owner, reply.user)
        between_us = not self.owner or (reply.owner, reply.user) == (self.owner, os.getpid())  # 0: of a namespace above
        if not between_us or not proves(reply.proof, handle, "owner", exchange):
            raise UsageError(f"process {self.owner} listens where the owner of these weights should, and does not "
                             "prove that it knows their handle: it is another process, and gets nothing from this one. "
                             "End it, and build the owner anew.")
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

    def _take(self, request: More) -> int:
        """Ask for more files; how many came."""
        _, fds = self._granted(request)
        self.fds += fds
        return len(fds)

    def _granted(self, request: Attach | More, leases: int = 0) -> tuple[Granted, list[int]]:
        reply, fds = _ask(self._socket, request, self.owner)
        if isinstance(reply, Granted) and reply.files + leases == len(fds):
            return reply, fds
        _close(fds)
        raise self._odd(reply, fds)

    def _odd(self, reply: Reply, fds: list[int]) -> UsageError:
        return UsageError(f"process {self.owner}, the owner of the weights, answered {reply} with {len(fds)} "
                          f"descriptors: run both with the same version of Rankmesh.")


def ask_for_rank(pid: int) -> int:
    """Which rank the owner `pid` is. Raises UsageError where `pid` shares no weights."""
    return _ask_owner(pid, Identify(), Identified, _ANSWER).rank


def ask_for_update(pid: int, fd: int, request: Update, timeout: float) -> str:
    """Ask the owner `pid`, a process of this user, to take the weights in the open file `fd`; returns what it did.

    `timeout` is in seconds. Raises UsageError with the owner's reason, or where `pid` shares no weights.
    """
    return _ask_owner(pid, request, Done, timeout, [fd]).text


def _ask_owner(pid: int, request: Request, kind: type[_Answer], timeout: float, send: list[int] | None = None
               ) -> _Answer:
    """The answer, of this kind, of the process that shares weights and has this number."""
    for path in socket_paths():
        try:
            sock = _connect(path)
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
    raise UsageError(f"process {pid} shares no weights (as user {os.getuid()}): give the process that built the model "
                     f"with shareable_weight_pid_list.")


def _connect(path: str) -> socket.socket:
    """A connection to the process that listens there, which is of this user; UsageError where there is none."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.settimeout(_ANSWER)
    try:
        sock.connect(path)
    except OSError as error:
        sock.close()
        if not isinstance(error, (FileNotFoundError, ConnectionRefusedError)):
            raise
        raise UsageError("no process shares weights under this handle: its owner has ended or closed the model, or is "
                         "in another container or of another user. Build the owner first, and keep it running."
                         ) from None
    pid, uid = credentials(sock)
    if uid != os.geteuid():
        sock.close()
        raise UsageError(f"process {pid}, which shares weights at {path}, belongs to user {uid}, expected "
                         f"{os.geteuid()}: weights are shared by processes of one user.")
    return sock


def _close(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)


def _ask(sock: socket.socket, request: Request, owner: int, send: list[int] | None = None) -> tuple[Reply, list[int]]:
    """One request and its answer; UsageError where it is refused, or the owner goes away or stays silent."""
    try:
        with suppress(BrokenPipeError, ConnectionResetError):  # what it said before it hung up can still be read
            socket.send_fds(sock, [encode(request)], send or [])
        data, fds = _receive(sock)
    except TimeoutError:
        raise UsageError(f"process {owner}, the owner of the weights, did not answer within {sock.gettimeout():g} s: "
                         f"it may be stopped.") from None
    if not data:
        raise UsageError(f"process {owner}, the owner of the weights, closed the connection: it has ended, or refuses "
                         f"this process (its log says why).")
    try:
        reply = decode_reply(data)
    except msgspec.DecodeError as error:
        raise UsageError(f"process {owner}, the owner of the weights, sent no answer that this version reads: {error}."
                         ) from error
    if isinstance(reply, Refused):
        raise UsageError(f"process {owner}, the owner of the weights, refuses: {reply.reason.rstrip('.')}.")
    return reply, fds


def _receive(sock: socket.socket) -> tuple[bytes, list[int]]:
    """The next packet and its descriptors; nothing at the end of the connection."""
    for _ in range(2):  # an unread request of ours makes the first call fail, and the second give the last packet
        try:
            data, fds, _ = receive(sock, LONGEST, _MOST_FDS)
        except ConnectionResetError:
            continue
        return data, fds
    return b"", []
