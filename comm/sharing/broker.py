"""Broker of shared memory: hands a model's files to listed processes and to no others."""

from __future__ import annotations

import atexit
import os
import secrets
import selectors
import socket
import threading
import time
import weakref
from collections.abc import Sequence
from functools import partial

from ..host.secrecy import close_to_others
from ..loggers import LOG
from ..transport.local_socket import listen, unlink
from .broker_service import BrokerService, Updating, run_update
from .messages import Update, broker_path
from .peer import MOST, Peer, PeerGone, Peers
from .refusals import Refusals
from .whitelist import Whitelist

FIRST_REQUEST_SECONDS = 1.0
"""Seconds that a peer has for its first request."""

_STOP, _RETIRE = b"s", b"r"
_MOST_STRANGERS = 8
_MOST_OF_ONE = 4
_PAUSE = 0.0005
"""Seconds of rest after a pass with a refusal: a flood costs a bounded share of a core."""


class Broker:
    """Serves the read-only descriptors `files`, which only grow, under `handle`, in its own thread.

    A receiver is a process of this user that is on the whitelist, as the kernel tells it, proves
    the handle, and names the same model (a fingerprint) and the same device. The checks come in an
    order that tells a process nothing that it did not know.
    """

    def __init__(
        self,
        whitelist: Whitelist,
        model: str,
        device: str,
        files: Sequence[int],
        update: Updating | None = None,
        rank: int = 0,
    ) -> None:
        """`update` is called from threads of the broker; `rank` is the rank that owns the files.

        The process becomes undumpable (see comm/host/secrecy.py).
        """
        close_to_others()
        self.handle = secrets.randbelow(2**63 - 1) + 1
        self.whitelist = whitelist
        self.retired = False
        self._update = update
        self._peers = Peers()
        self._service = BrokerService(
            self.handle, whitelist, self._peers, model, device, files, rank
        )
        self._process = os.getpid()
        self._path = broker_path(self.handle)
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        listener = listen(self._path, socket.SOCK_SEQPACKET)  # last: its name outlives an error
        assert listener is not None  # the handle is random: no other socket has its name
        self._listener = listener
        self._listener.setblocking(False)
        self._refusals = Refusals()
        self._closing = False
        self._thread = threading.Thread(target=self._serve, name="rankmesh-weights", daemon=True)

    def start(self) -> None:
        """Serve from now on, until `close` or the end of the process."""
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._woken, selectors.EVENT_READ, self._obey)
        atexit.register(self.close)
        _SERVING.add(self)
        self._thread.start()

    def publish(self, fds: Sequence[int]) -> None:
        """Add files that belong together. Holders ask for them when they need them."""
        self._service.files.add(fds)

    def allow(self, pid: int) -> bool:
        """List the process `pid`; False, with a warning, where there is none. 0 stands for none."""
        if not pid:
            return False
        found = self.whitelist.allow(pid)
        if not found:
            LOG.warning(
                "weights: there is no process %d here: it is not on the list of those that may use "
                "them",
                pid,
            )
        return found

    def clients(self) -> list[int]:
        """The processes that hold the weights now, ascending."""
        return self._peers.holders()

    def holding_older(self, version: int) -> list[int]:
        """The processes that compute with weights before `version`; call `barrier` first."""
        return self._peers.holding_older(version)

    def slots(self) -> set[int]:
        """The numbers of the processes that hold the weights now."""
        return self._peers.slots()

    def close(self) -> None:
        """End the service. Mapped memory stays mapped; a newcomer finds no broker."""
        if os.getpid() != self._process or self._closing:
            return
        self._closing = True
        atexit.unregister(self.close)
        self._wake.send(_STOP)
        self._thread.join()
        unlink(self._path)

    def retire(self) -> None:
        """Refuse newcomers, and further files to all; holders stay counted among the holders."""
        if not self.retired:
            self.retired = True
            self.whitelist.clear()
            self._wake.send(_RETIRE)

    def _obey(self) -> None:
        if self._woken.recv(1) != _RETIRE:
            raise _Stopped
        self._selector.unregister(self._listener)
        self._listener.close()
        unlink(self._path)

    def _serve(self) -> None:
        try:
            while True:
                refused = self._refusals.count
                for key, _ in self._selector.select(self._next_timeout()):
                    key.data()
                self._dismiss_late()
                self._refusals.report()
                if self._refusals.count != refused:
                    time.sleep(_PAUSE)
        except _Stopped:
            return
        finally:
            self._let_go()

    def _next_timeout(self) -> float | None:
        """Seconds until a deadline or a report; None where neither is due."""
        due = self._peers.next_deadline()
        waits = [] if due is None else [max(0.0, due - time.monotonic())]
        if self._refusals.pending:
            waits.append(1.0)
        return min(waits, default=None)

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:  # the peer has left already, or no descriptor is free
            time.sleep(_PAUSE)
            return
        peer = Peer(sock, time.monotonic() + FIRST_REQUEST_SECONDS)
        try:
            self._admit(peer)
        except PeerGone as refusal:
            self._refusals.add(peer.pid, peer.uid, str(refusal))
            peer.close()
            return
        self._peers.add(peer)
        self._selector.register(peer, selectors.EVENT_READ, lambda: self._read(peer))
        self._read(peer)  # a peer asks as it connects: mostly this saves a second wake-up

    def _admit(self, peer: Peer) -> None:
        """Refuse at once a peer that no request could help."""
        if peer.uid != os.geteuid():
            raise peer.refused("these weights belong to another user")
        if self._peers.strangers() >= _MOST_STRANGERS and not self.whitelist.permits(peer.pid):
            raise peer.refused("too many processes that are not on the owner's list ask at once")
        if self._peers.of(peer.pid) >= _MOST_OF_ONE or len(self._peers) >= MOST:
            raise peer.refused(
                f"a process has at most {_MOST_OF_ONE} connections, all together {MOST}"
            )

    def _read(self, peer: Peer) -> None:
        try:
            request, fd = peer.receive()
            try:
                if isinstance(request, Update):
                    self._begin_update(peer, request, fd)
                else:
                    self._service.answer(peer, request, time.monotonic() + FIRST_REQUEST_SECONDS)
            finally:
                if fd is not None:
                    os.close(fd)
        except BlockingIOError:
            return
        except PeerGone as end:
            if str(end):
                self._refusals.add(peer.pid, peer.uid, str(end))
            self._dismiss(peer)
        except OSError as error:  # no descriptor is left: this peer has to ask again
            self._refusals.add(peer.pid, peer.uid, f"the owner cannot: {error.strerror}")
            self._dismiss(peer)

    def _begin_update(self, peer: Peer, request: Update, fd: int | None) -> None:
        if fd is None:
            raise peer.refused("an update comes with its file")
        if self._update is None:
            raise peer.refused("this owner takes no updates")
        work = (self._update, peer, request, os.dup(fd), partial(self._peers.close, peer))
        peer.deadline = 0.0
        self._selector.unregister(peer)
        threading.Thread(target=run_update, args=work, name="rankmesh-update", daemon=True).start()

    def _dismiss(self, peer: Peer) -> None:
        self._selector.unregister(peer)
        self._peers.close(peer)

    def _dismiss_late(self) -> None:
        for peer in self._peers.late(time.monotonic()):
            self._refusals.add(peer.pid, peer.uid, f"no request within {FIRST_REQUEST_SECONDS:g} s")
            self._dismiss(peer)

    def _let_go(self) -> None:
        """Close all sockets. A forked child closes its copies too: they would keep the owner's
        socket open.
        """
        for peer in self._peers:
            peer.close()
        self._selector.close()
        self._service.files.close()
        self._listener.close()
        self._wake.close()
        self._woken.close()


class _Stopped(Exception):
    """Raised in the broker's thread to end it."""


_SERVING: weakref.WeakSet[Broker] = weakref.WeakSet()


def _let_go_in_child() -> None:
    for broker in list(_SERVING):
        broker._let_go()


os.register_at_fork(after_in_child=_let_go_in_child)  # once, so that no broker is kept by it
