"""Host memory of groups: shared-memory collectives among the members of one host."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...collective_call import Call, Kind
from ...job_memory.progress import Progress
from ..backend import Membership
from ..parts import Array
from ..shared_memory.all_reduce import AllReduce
from ..shared_memory.group_slots import GroupSlots
from ..shared_memory.layout import CollectiveLayout, lay_out
from ..shared_memory.mailbox import Inbox, Outbox
from ..shared_memory.shared_word import SharedWord
from ..shared_memory.slot_collectives import SlotCollective
from ..shared_memory.transfer import Transfer
from ..signature import Signer
from ..tracking import CarryOut
from .host_parts import Members


class HostMemory:
    """One rank's place in the arena of its host, for groups and messages within the host.

    Groups that lie on this host alone have the job's deadline. Parts of wider groups have none:
    their members may wait for another host, for which FailureMonitor keeps the deadline.
    """

    def __init__(
        self,
        membership: Membership,
        groups: Iterable[Members],
        parts: Iterable[Members],
        pairs: Iterable[tuple[int, int]],
    ) -> None:
        """`groups` are on this host alone, `parts` are its parts of wider ones.

        All ranks of the host pass the same.
        """
        m, me = membership, membership.rank.rank
        Progress(m.arena, me).note_cores()
        layout = lay_out(m.arena.end, groups, pairs)
        wider = lay_out(layout.size, parts, ())
        m.arena.grow(wider.size)
        self._word = word = SharedWord(m.arena, m.rank, m.timeout)
        self._patient_word = SharedWord(m.arena, m.rank, 0.0)
        self._groups = _slots(m, layout, word)
        self._parts = _slots(m, wider, self._patient_word)
        boxes = layout.pairs.items()
        self._outboxes = {d: Outbox(m.arena, r, word, me, d) for (s, d), r in boxes if s == me}
        self._inboxes = {s: Inbox(m.arena, r, word, me, s) for (s, d), r in boxes if d == me}

    def group(self, call: Call) -> CarryOut:
        """The operation of a call whose group is on this host; KeyError if it was not passed."""
        return _announced(self._word, call, _operation(call, self._groups[call.group.ranks]))

    def part(self, call: Call) -> CarryOut:
        """Likewise, of a call among the host's members of a wider group."""
        return _announced(self._patient_word, call, _operation(call, self._parts[call.group.ranks]))

    def transfer(self, call: Call) -> CarryOut:
        """The operation of a Send, Receive or NeighborExchange within the host."""
        members = call.group.ranks
        outboxes = [self._outboxes[members[p]] for p in call.sends_to]
        inboxes = [self._inboxes[members[p]] for p in call.receives_from]
        return _announced(self._word, call, Transfer(Signer(call), self._word, outboxes, inboxes))

    def close(self) -> None:
        """Drop the views of the arena."""
        for views in (self._groups, self._parts, self._inboxes, self._outboxes):
            views.clear()


def _slots(m: Membership, layout: CollectiveLayout, word: SharedWord) -> dict[Members, GroupSlots]:
    me = m.rank.rank
    return {
        members: GroupSlots(m.arena, region, me, word)
        for members, region in layout.groups.items()
        if me in members
    }


def _operation(call: Call, slots: GroupSlots) -> CarryOut:
    return AllReduce(call, slots) if call.kind is Kind.ALL_REDUCE else SlotCollective(call, slots)


def _announced(word: SharedWord, call: Call, operation: CarryOut) -> CarryOut:
    """An operation before which the call is noted for messages about a rank that does not come."""

    def carry_out(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        word.call = call
        operation(inputs, outputs)

    return carry_out
