"""Hands a model's shared memory to listed processes, and to nobody else."""

from __future__ import annotations

import atexit
import logging
import os
import secrets
import selectors
import socket
import threading
import time
import weakref
from collections.abc import Sequence

from ..local_socket import listen, unlink
from .handle import broker_path
from .messages import Attach, Hello, Identified, Identify, More, Request, Update
from .peer import Peer, PeerGone
from .peers import MOST, Peers
from .refusals import Refusals
from .stock import Stock
from .undumpable import close_to_others
from .updating import Updating, start_update
from .whitelist import Whitelist

_LOG = logging.getLogger("rankmesh")
_FIRST_REQUEST = 1.0
"""Seconds that a peer has for its first request."""

_STOP, _RETIRE = b"s", b"r"
_MOST_STRANGERS = 8
_MOST_OF_ONE = 4
_PAUSE = 0.0005
"""Seconds of rest after a pass with a refusal: a flood costs the owner a bounded share of a core."""


class Broker:
    """Serves the read-only descriptors `files`, which only grow, under `handle`, from a thread of its own.

    Who asks must be a process of this user that is on the whitelist, by the kernel's word, prove the handle, and name
    the same model (a fingerprint) and the same device. The order of the checks keeps from others what they do not know.
    """

    def __init__(self, whitelist: Whitelist, model: str, device: str, files: Sequence[int],
                 update: Updating | None = None, rank: int = 0) -> None:
        """`update` is called from threads of the broker; `rank` is whose weights they are.

        The process becomes undumpable (see undumpable.py).
        """
        close_to_others()
        self.handle = secrets.randbelow(2**63 - 1) + 1
        self.whitelist = whitelist
        self._model, self._device, self._update, self._rank = model, device, update, rank
        self._stock = Stock(files)
        self._process = os.getpid()
        self._path = broker_path(self.handle)
        listener = listen(self._path, socket.SOCK_SEQPACKET)
        assert listener is not None  # the handle is random: nobody else's socket has its name
        self._listener = listener
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._peers = Peers()
        self._refusals = Refusals()
        self._closing = False

    def start(self) -> None:
        """Serve from now on, until `close` or the end of the process."""
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._woken, selectors.EVENT_READ, self._told)
        atexit.register(self.close)
        _SERVING.add(self)
        self._thread = threading.Thread(target=self._serve, name="rankmesh-weights", daemon=True)
        self._thread.start()

    def publish(self, fds: Sequence[int]) -> None:
        """Add files, which belong together; who holds the weights asks for them when it needs them."""
        self._stock.add(fds)

    def clients(self) -> list[int]:
        """The processes that hold the weights now, ascending."""
        return self._peers.holders()

    def holding_older(self, version: int) -> list[int]:
        """The processes that compute with a version of the weights before `version`; call `barrier` first."""
        return self._peers.holding_older(version)

    def slots(self) -> set[int]:
        """The numbers of those that hold the weights now."""
        return self._peers.slots()

    def close(self) -> None:
        """Serve nobody any more. Who has mapped the memory keeps it; newcomers find nobody."""
        if os.getpid() != self._process or self._closing:
            return
        self._closing = True
        atexit.unregister(self.close)
        self._wake.send(_STOP)
        self._thread.join()
        unlink(self._path)

    def retire(self) -> None:
        """Serve no newcomers any more, and give nobody further files; who has the weights stays among the holders."""
        self.whitelist.clear()
        self._wake.send(_RETIRE)

    def _told(self) -> None:
        if self._woken.recv(1) != _RETIRE:
            raise _Stopped
        self._selector.unregister(self._listener)
        self._listener.close()
        unlink(self._path)

    def _serve(self) -> None:
        try:
            while True:
                refused = self._refusals.count
                for key, _ in self._selector.select(self._patience()):
                    key.data()
                self._dismiss_late()
                self._refusals.report()
                if self._refusals.count != refused:
                    time.sleep(_PAUSE)
        except _Stopped:
            return
        finally:
            self._let_go()

    def _patience(self) -> float | None:
        """Seconds until something is due."""
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
        peer = Peer(sock, time.monotonic() + _FIRST_REQUEST)
        try:
            self._admit(peer)
        except PeerGone as refusal:
            self._refusals.add(peer.pid, peer.uid, str(refusal))
            peer.close()
            return
        self._peers.add(peer)
        self._selector.register(peer, selectors.EVENT_READ, lambda: self._read(peer))
        self._read(peer)  # who connects asks at once: mostly the request is there, and no second wake-up is needed

    def _admit(self, peer: Peer) -> None:
        """Refuse at once whom no request could help."""
        if peer.uid != os.geteuid():
            raise peer.refused("these weights belong to another user")
        if self._peers.strangers() >= _MOST_STRANGERS and not self.whitelist.permits(peer.pid):
            raise peer.refused("too many processes that are not on the owner's list ask at once")
        if self._peers.of(peer.pid) >= _MOST_OF_ONE or len(self._peers) >= MOST:
            raise peer.refused(f"a process has at most {_MOST_OF_ONE} connections, all together {MOST}")

    def _read(self, peer: Peer) -> None:
        try:
            request, fd = peer.receive()
            try:
                self._handle(peer, request, fd)
            finally:
                if fd is not None:
                    os.close(fd)
        except BlockingIOError:
            return
        except PeerGone as end:
            if str(end):
                self._refusals.add(peer.pid, peer.uid, str(end))
            self._dismiss(peer)
        except OSError as error:  # no descriptor is left: this peer has to ask again, the others are served
            self._refusals.add(peer.pid, peer.uid, f"the owner cannot: {error.strerror}")
            self._dismiss(peer)

    def _handle(self, peer: Peer, request: Request, fd: int | None) -> None:
        if isinstance(request, Hello):
            self._require_listed(peer)
            peer.deadline = time.monotonic() + _FIRST_REQUEST
            peer.prove(self.handle, request)
        elif isinstance(request, Attach):
            self._attach(peer, request)
        elif isinstance(request, More):
            if peer.slot is None:
                raise peer.refused(self._unlisted(peer))
            self._require_listed(peer)
            self._stock.more(peer, request.first)
        elif isinstance(request, Identify):
            peer.send(Identified(self._rank))
        else:
            self._begin_update(peer, request, fd)

    def _attach(self, peer: Peer, request: Attach) -> None:
        self._require_listed(peer)
        if not peer.has_proved(self.handle, request):
            raise peer.refused("the handle is not the one of these weights")
        if request.model != self._model:
            raise peer.refused("the model differs from the owner's: both must build the same model file")
        if request.device != self._device:
            raise peer.refused(f"the owner's weights are on {self._device}, this model is on {request.device}: build "
                               f"both for one device")
        peer.deadline = 0.0
        if peer.slot is None:
            peer.slot = self._peers.free_slot()
        self._stock.welcome(peer)
        _LOG.info("weights: process %d has them now", peer.pid)

    def _require_listed(self, peer: Peer) -> None:
        """Both the listed process and the one that connected must live now: then they are one and the same."""
        if not self.whitelist.permits(peer.pid):
            raise peer.refused(self._unlisted(peer))
        if not peer.connected_by_living():
            raise PeerGone("the process that connected has ended, or this cannot be told: another one may hold its "
                           "connection")

    def _unlisted(self, peer: Peer) -> str:
        return f"process {peer.pid} is not on the owner's list of processes (shareable_weight_pid_list)"

    def _begin_update(self, peer: Peer, request: Update, fd: int | None) -> None:
        if self._update is None or fd is None:
            raise peer.refused("this owner takes no updates" if fd is not None else "an update comes with its file")
        copy = os.dup(fd)
        peer.deadline = 0.0
        self._selector.unregister(peer)
        start_update(self._update, peer, request, copy, lambda: self._peers.close(peer))

    def _dismiss(self, peer: Peer) -> None:
        self._selector.unregister(peer)
        self._peers.close(peer)

    def _dismiss_late(self) -> None:
        for peer in self._peers.late(time.monotonic()):
            self._refusals.add(peer.pid, peer.uid, f"no request within {_FIRST_REQUEST:g} s")
            self._dismiss(peer)

    def _let_go(self) -> None:
        """Close all sockets; in a forked child too, where they would make the owner seem alive."""
        for peer in self._peers:
            peer.close()
        self._selector.close()
        self._stock.close()
        self._listener.close()
        self._wake.close()
        self._woken.close()


class _Stopped(Exception):
    """The broker is to serve nobody any more."""


_SERVING: weakref.WeakSet[Broker] = weakref.WeakSet()


def _let_go_in_child() -> None:
    for broker in list(_SERVING):
        broker._let_go()


os.register_at_fork(after_in_child=_let_go_in_child)  # once: it would keep what it is registered for
