"""Remote rendezvous server: rank 0 relays exchanges between hosts, and reports failures to all."""

from __future__ import annotations

import threading
import time

import msgspec

from ..job.rank import Rank
from ..text import counted
from ..transport.curve_server import CurvePeer, CurveServer
from ..transport.messages import Beat, Exchange, Exchanged, Failed, Join, Joined, Left, Message
from .address import RendezvousAddress
from .relay import Relay

_LOOK = 1.0
_SETTLE = 0.01
"""Seconds after which an ended connection can be told from one that lasts."""

_CLOSED = 3.0
GONE = "its process was ended, or its host or the network to it is down"


class _Member(msgspec.Struct, frozen=True):
    peer: CurvePeer
    where: str


class RemoteRendezvousServer:
    """Serves the ranks of one job, rank 0 too, from a thread of rank 0's process."""

    def __init__(
        self,
        server: CurveServer,
        rank: Rank,
        address: RendezvousAddress,
        where: str,
        timeout: float,
    ) -> None:
        """`where` names the host and process of rank 0."""
        self._server = server
        self._world_size = rank.world_size
        self._address = address
        self._where = where
        self._relay = Relay(rank.world_size, timeout)
        self._members: dict[int, _Member] = {}
        self._left: dict[int, str] = {}
        self._failed: Failed | None = None
        self._next_look = 0.0
        self._closing = False
        self._thread = threading.Thread(target=self._serve, name="rankmesh-rendezvous", daemon=True)

    def start(self) -> None:
        """Serve until `close`."""
        self._thread.start()

    def close(self) -> None:
        """Stop serving; messages that were sent still reach the ranks."""
        self._closing = True
        self._server.wake()
        self._thread.join(_CLOSED)

    def _serve(self) -> None:
        try:
            while not self._closing:
                self._turn()
        finally:
            self._server.close()  # so that no rank waits for this server

    def _turn(self) -> None:
        messages, shaken = self._server.receive(self._next_timeout())
        for peer, message in messages:
            self._handle(peer, message)
        now = time.monotonic()
        if shaken:
            self._next_look = min(self._next_look, now + _SETTLE)
        if now >= self._next_look:
            self._next_look = now + _LOOK
            self._look()
        self._check_deadline()

    def _next_timeout(self) -> float:
        look = max(0.0, self._next_look - time.monotonic())
        deadline = self._relay.next_timeout()
        return look if deadline is None else min(look, deadline)

    def _handle(self, peer: CurvePeer, message: Message | None) -> None:
        rank = next((r for r, member in self._members.items() if member.peer == peer), None)
        if isinstance(message, Join) and rank is None:
            self._server.send(peer, self._answer(peer, message))
        elif rank is None:
            return  # the peer is not of this job
        elif isinstance(message, Failed):
            self._fail(message)
        elif isinstance(message, Left):
            self._leave(rank)
        elif isinstance(message, Exchange):
            self._exchange(rank, message.payload)
        else:
            self._fail(
                Failed(
                    "RankFailed",
                    f"{self._name(rank)} sent what is no message: install the same version of "
                    "rankmesh on all hosts.",
                    rank,
                )
            )

    def _answer(self, peer: CurvePeer, join: Join) -> Message:
        """Welcome a rank, or give the reason for a refusal."""
        if join.job != self._address.job:
            return Failed(
                "UsageError",
                (
                    f"two jobs want one port: {self._address.job!r} of {self._where} has it, and "
                    f"rank {join.rank} belongs to {join.job!r}. Wait until that has ended, or set "
                    "another RANKMESH_PORT for this job on all hosts."
                ),
            )
        if join.rank in self._members or join.rank in self._left:
            state = (
                "runs already" if join.rank in self._members else "has ended, but not yet rank 0"
            )
            return Failed(
                "UsageError",
                (
                    f"{self._name(join.rank)} of this job {state} ({self._where}). A second job "
                    "with the same rank table or job id must wait until the first has ended, or "
                    "have another RANKMESH_PORT."
                ),
            )
        if join.world_size != self._world_size or not 0 <= join.rank < self._world_size:
            return Failed(
                "UsageError",
                f"rank {join.rank} of {join.world_size} came to a job of {self._world_size} ranks: "
                "start all with the same rank table or number of ranks.",
            )
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
        """Note that a rank ends in order: only an exchange that waits for it fails."""
        self._tell_all(Left(rank))
        self._forget(rank)
        self._check_round()

    def _forget(self, rank: int) -> None:
        self._left[rank] = self._members.pop(rank).where
        self._relay.leave(rank)

    def _check_round(self) -> None:
        rank = self._relay.broken_by
        if rank is not None:
            text = f"{self._name(rank)} has ended, and the others wait for it"
            self._fail(Failed("RankFailed", text, rank))

    def _look(self) -> None:
        """Find ranks that are gone; those of one moment are reported together, as a host's are."""
        gone = [
            rank
            for rank, member in self._members.items()
            if not self._server.send(member.peer, Beat())
        ]
        names = ", ".join(self._name(rank) for rank in sorted(gone))
        for rank in gone:
            self._forget(rank)
        if gone:
            self._fail(Failed("RankFailed", f"{names} is gone: {GONE}", min(gone)))

    def _check_deadline(self) -> None:
        if self._failed or self._relay.next_timeout() != 0.0:
            return
        late = self._relay.late()
        said = ", ".join(
            f"{self._name(r)} did not come to an exchange of all ranks"
            if r in self._members
            else f"rank {r} never came{self._address.expected(r)}"
            for r in late
        )
        if self._server.refused:
            said += (
                f" ({counted(self._server.refused, 'connection')} without this key file's keys "
                "ended: is it the same on all hosts?)"
            )
        self._fail(
            Failed(
                "RankFailed",
                f"the ranks waited {self._relay.timeout:g} s for each other: {said}",
                late[0],
            )
        )

    def _fail(self, failed: Failed) -> None:
        """Report the first failure to all ranks; later ones get it when they join."""
        self._failed = self._failed or failed
        self._tell_all(self._failed)

    def _tell_all(self, message: Message) -> None:
        for member in self._members.values():
            self._server.send(member.peer, message)

    def _name(self, rank: int) -> str:
        member = self._members.get(rank)
        return (
            f"rank {rank} of {self._world_size} "
            f"({member.where if member else self._left.get(rank, 'gone')})"
        )
