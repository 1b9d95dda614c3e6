"""Collectives over the arena: numpy on shared pages, and futexes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from ...collective_call import ONE_WAY, Call, Kind
from ...errors import RankmeshError
from ...job.rank import Rank
from ...job_memory.arena import Arena
from ...job_memory.progress import Progress
from ..backend import TensorCollectives
from ..parts import Array, copy_all
from ..signature import Signer
from .all_reduce import AllReduce
from .device_transfer import DeviceRing, DeviceTransfer
from .group_slots import GroupSlots
from .layout import lay_out
from .mailbox import Inbox, Outbox
from .shared_word import SharedWord
from .slot_collectives import SlotCollective
from .transfer import Transfer


class _Prepared(NamedTuple):
    call: Call  # keeps the call alive, as it is looked up by identity
    ticket: int
    carry_out: Callable[[Sequence[Array], Sequence[Array]], None]


class SharedMemoryCollectives:
    """The collectives of one rank; see `Collectives.run`.

    Sum and product of floats are formed in the order of positions: all members get the same bits.
    """

    name = "shared_memory"

    def __init__(
        self,
        rank: Rank,
        arena: Arena,
        groups: Iterable[tuple[int, ...]],
        pairs: Iterable[tuple[int, int]],
        timeout: float,
    ) -> None:
        """Lay out the arena and take this rank's place in it, without waiting.

        All ranks pass the same lists: all groups that any rank uses, and all (source, destination)
        of messages. `timeout` is in seconds from the first rank's entry, 0 for no deadline. Pin the
        process before: ranks spin while they wait only if each has a core.
        """
        layout = lay_out(arena.end, groups, pairs)
        arena.grow(layout.size)
        me = rank.rank
        self._rank = rank
        self._shared_word = word = SharedWord(arena, rank, timeout)
        self._progress = Progress(arena, me)
        self._progress.note_cores()
        self._groups = {
            members: GroupSlots(arena, region, me, word)
            for members, region in layout.groups.items()
            if me in members
        }
        self._outboxes = {
            d: Outbox(arena, r, word, me, d) for (s, d), r in layout.pairs.items() if s == me
        }
        self._inboxes = {
            s: Inbox(arena, r, word, me, s) for (s, d), r in layout.pairs.items() if d == me
        }
        self._rings: Mapping[tuple[int, int], DeviceRing] = {}
        self._prepared: dict[int, _Prepared] = {}
        self._count = 0
        self.tensors: TensorCollectives | None = None
        """The collectives on tensors of a device, where some are possible."""

    def use_rings(self, rings: Mapping[tuple[int, int], DeviceRing]) -> None:
        """From now on let Sends and Receives of these pairs (source, destination) go by rings."""
        self._rings = rings

    def ring(self, call: Call) -> DeviceRing | None:
        """The ring of a Send or Receive between devices; None for all other calls."""
        members, me = call.group.ranks, self._rank.rank
        if call.kind is Kind.SEND:
            return self._rings.get((me, members[call.sends_to[0]]))
        if call.kind is Kind.RECEIVE:
            return self._rings.get((members[call.receives_from[0]], me))
        return None

    def check_abort(self) -> None:
        """Raise CollectiveAborted if the job was aborted."""
        self._shared_word.check_abort()

    def run(self, call: Call, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Carry out `call` with the other members of its group."""
        prepared = self._prepared.get(id(call)) or self._prepare(call)
        self._shared_word.check_abort()
        self._shared_word.call = call
        self._count += 1
        self._progress.enter(self._count, prepared.ticket)
        prepared.carry_out(inputs, outputs)
        self._progress.finish()

    def close(self) -> None:
        """Drop the views of the arena, and the memory of devices."""
        self._rings, self.tensors = {}, None
        for views in (self._prepared, self._groups, self._inboxes, self._outboxes):
            views.clear()

    def _prepare(self, call: Call) -> _Prepared:
        """Find the place of a call in the arena, once."""
        try:
            carry_out = self._operation(call)
        except KeyError as missing:
            raise RankmeshError(
                f"{self._rank} did not lay out {missing} for {call.kind.value} of node "
                f"{call.node!r}: every group and pair must be among those that the ranks joined "
                "with"
            ) from None
        prepared = _Prepared(call, self._progress.announce(call), carry_out)
        self._prepared[id(call)] = prepared
        return prepared

    def _operation(self, call: Call) -> Callable[[Sequence[Array], Sequence[Array]], None]:
        members = call.group.ranks
        if call.kind in ONE_WAY:
            outboxes = [self._outboxes[members[p]] for p in call.sends_to]
            inboxes = [self._inboxes[members[p]] for p in call.receives_from]
            ring = self.ring(call)
            if ring:
                end = outboxes[0] if outboxes else inboxes[0]
                return DeviceTransfer(Signer(call), self._shared_word, end, ring)
            return Transfer(Signer(call), self._shared_word, outboxes, inboxes)
        if len(members) == 1:
            return copy_all
        group = self._groups[members]
        return (
            AllReduce(call, group) if call.kind is Kind.ALL_REDUCE else SlotCollective(call, group)
        )
