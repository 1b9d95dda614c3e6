"""Collectives between ranks of one host, over the job's arena: numpy on shared pages and a futex."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ..arena import Arena
from ..errors import RankmeshError
from ..progress import Progress
from ..rank import Rank
from .all_reduce import AllReduce
from .base import ONE_WAY, Array, Call, Kind
from .exchanges import GroupExchange
from .group_slots import GroupSlots
from .handover import Handover
from .layout import lay_out
from .mailbox import Inbox, Outbox
from .parts import copy_all
from .signature import Signer
from .transfer import Transfer


class _Prepared(NamedTuple):
    call: Call  # keeps the call alive, as it is looked up by identity
    ticket: int
    carry_out: Callable[[Sequence[Array], Sequence[Array]], None]


class SharedMemoryCollectives:
    """One rank's collectives; see `Collectives` for what `run` does.

    Sum and product of floats are formed in the order of positions, so all members get the same bits.
    """

    name = "shared_memory"

    def __init__(
        self, rank: Rank, arena: Arena, groups: dict[tuple[int, ...], GroupSlots], inboxes: dict[int, Inbox],
        outboxes: dict[int, Outbox], handover: Handover,
    ) -> None:
        self._rank = rank
        self._groups, self._inboxes, self._outboxes = groups, inboxes, outboxes
        self._handover = handover
        self._progress = Progress(arena, rank.rank)
        self._prepared: dict[int, _Prepared] = {}
        self._count = 0

    @classmethod
    def join(
        cls, rank: Rank, arena: Arena, groups: Iterable[tuple[int, ...]], pairs: Iterable[tuple[int, int]],
        timeout: float,
    ) -> SharedMemoryCollectives:
        """Lay out the arena and take this rank's place in it; waits for nobody.

        Every rank passes the same lists: all groups that any rank uses and all (source, destination) of
        point-to-point. `timeout` is in seconds from the first rank's entry, 0 for none. Pin the process
        before: the ranks spin while waiting only if they have a core each.
        """
        layout = lay_out(arena.end, groups, pairs)
        arena.grow(layout.size)
        me, handover = rank.rank, Handover(arena, rank, timeout)
        Progress(arena, me).note_cores()
        slots = {m: GroupSlots(arena, r, me, handover) for m, r in layout.groups.items() if me in m}
        outboxes = {d: Outbox(arena, r, handover, s, d) for (s, d), r in layout.pairs.items() if s == me}
        inboxes = {s: Inbox(arena, r, handover, s, d) for (s, d), r in layout.pairs.items() if d == me}
        return cls(rank, arena, slots, inboxes, outboxes, handover)

    def run(self, call: Call, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Carry out `call` with the other members of its group."""
        prepared = self._prepared.get(id(call)) or self._prepare(call)
        self._handover.check_abort()
        self._handover.call = call
        self._count += 1
        self._progress.enter(self._count, prepared.ticket)
        prepared.carry_out(inputs, outputs)
        self._progress.finish()

    def close(self) -> None:
        """Let go of the arena's views."""
        for views in (self._prepared, self._groups, self._inboxes, self._outboxes):
            views.clear()

    def _prepare(self, call: Call) -> _Prepared:
        """Find the call's place in the arena, once."""
        try:
            carry_out = self._operation(call)
        except KeyError as missing:
            raise RankmeshError(
                f"{self._rank} did not lay out {missing} for {call.kind.value} of node {call.node!r}: "
                "every group and pair must be among those that the ranks joined with") from None
        prepared = _Prepared(call, self._progress.announce(call), carry_out)
        self._prepared[id(call)] = prepared
        return prepared

    def _operation(self, call: Call) -> Callable[[Sequence[Array], Sequence[Array]], None]:
        members = call.group.ranks
        if call.kind in ONE_WAY:
            outboxes = [self._outboxes[members[p]] for p in call.sends_to]
            inboxes = [self._inboxes[members[p]] for p in call.receives_from]
            return Transfer(Signer(call), self._handover, outboxes, inboxes)
        if len(members) == 1:
            return copy_all
        group = self._groups[members]
        return AllReduce(call, group) if call.kind is Kind.ALL_REDUCE else GroupExchange(call, group)
