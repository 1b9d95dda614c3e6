"""Rank 0's side of a job on several hosts: relays exchanges, and tells all ranks when one of them fails."""

from __future__ import annotations

import threading
import time

import msgspec

from .counted import counted
from .curve_server import Peer, Server
from .messages import Beat, Exchange, Exchanged, Failed, Join, Joined, Left, Message
from .place import Place
from .rank import Rank
from .relay import Relay

_LOOK = 1.0
_SETTLE = 0.01
"""Seconds after which a connection that has ended can be told from one that lasts."""

_CLOSED = 3.0
GONE = "its process was ended, or its host or the network to it is down"


class _Member(msgspec.Struct, frozen=True):
    peer: Peer
    where: str


class RemoteHub:
    """Serves the ranks of one job, rank 0 too, from a thread of rank 0's process: `start`, later `close`."""

    def __init__(self, server: Server, rank: Rank, place: Place, where: str, timeout: float) -> None:
        """`where` is where rank 0 is: its host and process."""
        self._server, self._world_size, self._place, self._where = server, rank.world_size, place, where
        self._relay = Relay(rank.world_size, timeout)
        self._members: dict[int, _Member] = {}
        self._left: dict[int, str] = {}
        self._failed: Failed | None = None
        self._next_look = 0.0
        self._closing = False
        self._thread = threading.Thread(target=self._serve, name="rankmesh-hub", daemon=True)

    def start(self) -> None:
        """Serve until `close`."""
        self._thread.start()

    def close(self) -> None:
        """Serve no more; what has been said still reaches the ranks."""
        self._closing = True
        self._server.wake()
        self._thread.join(_CLOSED)

    def _serve(self) -> None:
        try:
            while not self._closing:
                self._turn()
        finally:
            self._server.close()  # so that nobody waits for a hub that is no more

    def _turn(self) -> None:
        messages, shaken = self._server.receive(self._patience())
        for peer, message in messages:
            self._handle(peer, message)
        now = time.monotonic()
        if shaken:
            self._next_look = min(self._next_look, now + _SETTLE)
        if now >= self._next_look:
            self._next_look = now + _LOOK
            self._look()
        self._check_deadline()

    def _patience(self) -> float:
        look = max(0.0, self._next_look - time.monotonic())
        deadline = self._relay.patience()
        return look if deadline is None else min(look, deadline)

    def _handle(self, peer: Peer, message: Message | None) -> None:
        rank = next((r for r, member in self._members.items() if member.peer == peer), None)
        if isinstance(message, Join) and rank is None:
            self._server.send(peer, self._answer(peer, message))
        elif rank is None:
            return  # of no job, or of another
        elif isinstance(message, Failed):
            self._fail(message)
        elif isinstance(message, Left):
            self._leave(rank)
        elif isinstance(message, Exchange):
            self._exchange(rank, message.payload)
        else:
            self._fail(Failed("RankFailed", f"{self._name(rank)} sent what is no message: install the same version of "
                                            f"rankmesh on all hosts.", rank))

    def _answer(self, peer: Peer, join: Join) -> Message:
        """Welcome a rank, or say why not."""
        if join.job != self._place.job:
            return Failed("UsageError", (
                f"two jobs want one port: {self._place.job!r} of {self._where} has it, and rank {join.rank} belongs to "
                f"{join.job!r}. Wait until that has ended, or set another RANKMESH_PORT for this job on all hosts."))
        if join.rank in self._members or join.rank in self._left:
            state = "runs already" if join.rank in self._members else "has ended, but not yet rank 0"
            return Failed("UsageError", (
                f"{self._name(join.rank)} of this job {state} ({self._where}). A second job with the same rank table "
                f"or job id must wait until the first has ended, or have another RANKMESH_PORT."))
        if join.world_size != self._world_size or not 0 <= join.rank < self._world_size:
            return Failed("UsageError", f"rank {join.rank} of {join.world_size} came to a job of {self._world_size} "
                                        f"ranks: start all with the same rank table or number of ranks.")
        self._members[join.rank] = _Member(peer, join.where)
        self._server.trust(peer)
        return self._failed or Joined(self._where)

    def _exchange(self, rank: int, payload: bytes) -> None:
        if self._failed:
            self._server.send(self._members[rank].peer, self._failed)
            return
        payloads = self._relay.give(rank, payload)
        if payloads is not None:
            self._tell_all(Exchanged(payloads))
        self._check_round()

    def _leave(self, rank: int) -> None:
        """A rank ends in order: nobody fails but those who wait for it."""
        self._tell_all(Left(rank))
        self._left[rank] = self._members.pop(rank).where
        self._check_round()

    def _check_round(self) -> None:
        gone = [rank for rank in self._relay.late() if rank in self._left]
        if gone and self._relay.pending:
            self._fail(Failed("RankFailed", f"{self._name(gone[0])} has ended, and the others wait for it", gone[0]))

    def _look(self) -> None:
        """Find who is gone without a word; those of one moment are told together, as a host's ranks go together."""
        gone = [rank for rank, member in self._members.items() if not self._server.send(member.peer, Beat())]
        names = ", ".join(self._name(rank) for rank in sorted(gone))
        for rank in gone:
            self._left[rank] = self._members.pop(rank).where
        if gone:
            self._fail(Failed("RankFailed", f"{names} is gone: {GONE}", min(gone)))

    def _check_deadline(self) -> None:
        if self._failed or self._relay.patience() != 0.0:
            return
        late = self._relay.late()
        said = ", ".join(f"{self._name(r)} did not come to an exchange of all ranks" if r in self._members else
                         f"rank {r} never came{self._place.expected(r)}" for r in late)
        if self._server.refused:
            said += (f" ({counted(self._server.refused, 'connection')} without this key file's keys ended: is it the "
                     f"same on all hosts?)")
        self._fail(Failed("RankFailed", f"the ranks waited {self._relay.timeout:g} s for each other: {said}", late[0]))

    def _fail(self, failed: Failed) -> None:
        """The first failure is the one that all are told, those who come later too."""
        self._failed = self._failed or failed
        self._tell_all(self._failed)

    def _tell_all(self, message: Message) -> None:
        for member in self._members.values():
            self._server.send(member.peer, message)

    def _name(self, rank: int) -> str:
        member = self._members.get(rank)
        return f"rank {rank} of {self._world_size} ({member.where if member else self._left.get(rank, 'gone')})"

