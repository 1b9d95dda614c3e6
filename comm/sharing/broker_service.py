"""Requests of a broker's peers: the checks of a receiver, the files that it gets, and updates."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from ..errors import RankmeshError
from ..loggers import LOG
from .lease import Lease
from .messages import (
    MOST_FILES,
    Attach,
    Done,
    Granted,
    Hello,
    Identified,
    Identify,
    More,
    Refused,
    Update,
)
from .peer import Peer, PeerGone, Peers
from .whitelist import Whitelist

_LONGEST_TEXT = 1000
Updating = Callable[[int, Update], str]
"""Takes a descriptor and a request; returns what was done, or raises RankmeshError."""


class SharedFiles:
    """Read-only descriptors, which stay their maker's and only grow, and a lease per receiver."""

    def __init__(self, files: Sequence[int]) -> None:
        self._files = list(files)
        self._next_leases = [Lease.make()]  # made ahead: a receiver waits for as little as possible

    def add(self, fds: Sequence[int]) -> None:
        """Add files that belong together."""
        self._files.extend(fds)

    def welcome(self, peer: Peer, slot: int) -> None:
        """Hand the holder number `slot` a lease of its own and the first files. Raises PeerGone."""
        fd, lease = self._next_leases.pop()
        peer.slot, peer.lease = slot, lease
        try:
            self._send(peer, slot, self._files[:MOST_FILES], [fd])
        finally:
            os.close(fd)
            self._next_leases.append(Lease.make())

    def more(self, peer: Peer, slot: int, first: int) -> None:
        """Hand over the files from number `first` on. Raises PeerGone."""
        self._send(peer, slot, self._files[first : first + MOST_FILES], [])

    def close(self) -> None:
        """Close the leases that were made ahead; may be called again."""
        while self._next_leases:
            os.close(self._next_leases.pop()[0])

    def _send(self, peer: Peer, slot: int, files: Sequence[int], leases: Sequence[int]) -> None:
        peer.send(Granted(len(files), slot), [*leases, *files])


class BrokerService:
    """Answers the requests of admitted peers, in the broker's thread."""

    def __init__(
        self,
        handle: int,
        whitelist: Whitelist,
        peers: Peers,
        model: str,
        device: str,
        files: Sequence[int],
        rank: int,
    ) -> None:
        self.files = SharedFiles(files)
        self._handle = handle
        self._whitelist = whitelist
        self._peers = peers
        self._model = model
        self._device = device
        self._rank = rank

    def answer(
        self, peer: Peer, request: Hello | Attach | More | Identify, deadline: float
    ) -> None:
        """Answer a request; a proof is due by `deadline` (monotonic clock). Raises PeerGone."""
        if isinstance(request, Identify):
            peer.send(Identified(self._rank))
            return
        if isinstance(request, More) and peer.slot is None:
            raise peer.refused(_unlisted(peer))
        self._require_listed(peer)
        if isinstance(request, Hello):
            peer.deadline = deadline
            peer.prove(self._handle, request)
        elif isinstance(request, Attach):
            self._attach(peer, request)
        elif peer.slot is not None:
            self.files.more(peer, peer.slot, request.first)

    def _attach(self, peer: Peer, request: Attach) -> None:
        if not peer.has_proved(self._handle, request):
            raise peer.refused("the handle is not the one of these weights")
        if request.model != self._model:
            raise peer.refused(
                "the model differs from the owner's: both must build the same model file"
            )
        if request.device != self._device:
            raise peer.refused(
                f"the owner's weights are on {self._device}, this model is on {request.device}: "
                "build both for one device"
            )
        peer.deadline = 0.0
        slot = self._peers.free_slot() if peer.slot is None else peer.slot
        self.files.welcome(peer, slot)
        LOG.info("weights: process %d has them now", peer.pid)

    def _require_listed(self, peer: Peer) -> None:
        """Refuse unless the listed process and the connected one both live: then they are one."""
        if not self._whitelist.permits(peer.pid):
            raise peer.refused(_unlisted(peer))
        if not peer.connected_by_living():
            raise PeerGone(
                "the process that connected has ended, or this cannot be told: another one may "
                "hold its connection"
            )


def run_update(
    update: Updating, peer: Peer, request: Update, fd: int, ended: Callable[[], None]
) -> None:
    """Run `update`, answer the peer, close `fd`, and call `ended`; for a thread of its own."""
    try:
        peer.send(_outcome(update, fd, request))
    except PeerGone:
        pass  # the peer did not wait; the update stands
    finally:
        os.close(fd)
        ended()


def _outcome(update: Updating, fd: int, request: Update) -> Done | Refused:
    try:
        return Done(update(fd, request)[:_LONGEST_TEXT])
    except RankmeshError as error:
        return Refused(str(error)[:_LONGEST_TEXT])
    except Exception as error:  # no memory left, or a fault of a library: the owner goes on
        LOG.exception("weights: the update from %s failed", request.name)
        text = f"the update failed, and changed nothing: {type(error).__name__}: {error}"
        return Refused(text[:_LONGEST_TEXT])


def _unlisted(peer: Peer) -> str:
    return f"process {peer.pid} is not on the owner's list of processes (shareable_weight_pid_list)"
