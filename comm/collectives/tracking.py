"""Tracking of collectives that a library carries out: the arrivals and departures of each rank.

A library may wait for ever for a rank that never comes. From the tracked arrivals the other ranks
learn which rank that is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from ..collective_call import ONE_WAY, Call, Kind
from ..errors import CollectiveMismatch, RankFailed, RankmeshError
from ..host.process_identity import is_stopped
from ..job.rank import Rank
from ..job_memory.arena import Arena
from ..job_memory.progress import Progress
from .arrival_table import ArrivalTable, open_arrival_tables
from .parts import Array, copy_all
from .signature import Signer, describe


class SignedForm(Protocol):
    """The properties of an array that a signature has."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Its element type."""

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""


CarryOut = Callable[[Sequence[Array], Sequence[Array]], None]
_SIZED_BY_OUTPUT = (Kind.BROADCAST, Kind.SCATTER)


class PendingCollective:
    """One collective of a rank's program, by the tables of its members; a WaitPoint."""

    def __init__(self, description: str, tables: Sequence[ArrivalTable]) -> None:
        self.description = description
        self.tables = tables
        self.unseen = sorted({rank for table in tables for rank in table.unseen})

    def __str__(self) -> str:
        return self.description

    def missing(self) -> list[int]:
        """The ranks that never came.

        If all came: those whose process is stopped. If none is, and all members are seen here:
        those that are still inside.
        """
        absent = sorted({rank for table in self.tables for rank in table.absent()})
        if absent:
            return absent
        inside = {rank: table.process(rank) for table in self.tables for rank in table.inside()}
        stopped = sorted(rank for rank, process in inside.items() if is_stopped(process))
        return stopped or ([] if self.unseen else sorted(inside))

    def entered(self, rank: int) -> bool:
        """See WaitPoint.entered."""
        return not any(rank in table.absent() for table in self.tables)

    def first_entry(self) -> int:
        """See WaitPoint.first_entry."""
        return min(table.first_arrival() for table in self.tables)


class TrackedCall:
    """One call of a rank's program, with its tables and its ticket for Progress.

    `sent` and `received` are the indices of the arrays that go to and come from other ranks.
    """

    def __init__(
        self,
        call: Call,
        pending: PendingCollective,
        ticket: int,
        sent: Sequence[int],
        received: Sequence[int],
    ) -> None:
        self.call = call
        self.pending = pending
        self.ticket = ticket
        self.awaited = pending.tables[len(sent) :]
        """The tables of the ranks from which this rank receives."""
        self._sent = sent
        self._received = received
        self._sign = Signer(call)

    def signatures(self, inputs: Sequence[SignedForm], outputs: Sequence[SignedForm]) -> list[int]:
        """The signature of the call with these arrays, for each of its tables."""
        if self.call.kind in ONE_WAY:
            arrays = [inputs[i] for i in self._sent] + [outputs[i] for i in self._received]
            return [self._sign(x.dtype, x.nbytes) for x in arrays]
        if not self.pending.tables:
            return []
        arrays = list(outputs if self.call.kind in _SIZED_BY_OUTPUT else inputs)
        return [self._sign(arrays[0].dtype, sum(x.nbytes for x in arrays))]


class CollectiveTracker:
    """Notes the collectives that this rank enters and leaves.

    `groups` and `pairs` (source, destination) are the same on all ranks; `local` are the ranks of
    this arena. `waiting` has the collectives that the rank is inside, for the thread that watches
    for failures.
    """

    def __init__(
        self,
        arena: Arena,
        rank: Rank,
        groups: Iterable[tuple[int, ...]],
        pairs: Iterable[tuple[int, int]],
        local: frozenset[int],
        waiting: set[PendingCollective],
    ) -> None:
        groups = sorted(set(groups))
        pairs = sorted({(source, to) for source, to in pairs if source != to})
        tables = open_arrival_tables(arena, rank.rank, [*groups, *pairs], local)
        self._groups = dict(zip(groups, tables[: len(groups)], strict=True))
        self._pairs = dict(zip(pairs, tables[len(groups) :], strict=True))
        self._rank = rank.rank
        self._progress = Progress(arena, rank.rank)
        self._count = 0
        self._waiting = waiting

    def track(self, call: Call) -> TrackedCall:
        """Prepare a call; KeyError if its group or pair is not among those of the tracker."""
        members, me = call.group.ranks, self._rank
        to = [(i, (me, members[p])) for i, p in enumerate(call.sends_to) if members[p] != me]
        source = [
            (i, (members[p], me)) for i, p in enumerate(call.receives_from) if members[p] != me
        ]
        if call.kind in ONE_WAY:
            tables = [self._pairs[pair] for _, pair in (*to, *source)]
        else:
            tables = [self._groups[members]] if len(members) > 1 else []
        pending = PendingCollective(str(call), [one for one in tables if one is not None])
        ticket = self._progress.announce(call)
        return TrackedCall(call, pending, ticket, [i for i, _ in to], [i for i, _ in source])

    def enter(
        self, tracked: TrackedCall, inputs: Sequence[SignedForm], outputs: Sequence[SignedForm]
    ) -> None:
        """Note that the rank enters a call with these arrays."""
        self._count += 1
        self._progress.enter(self._count, tracked.ticket)
        tables = tracked.pending.tables
        for table, signature in zip(tables, tracked.signatures(inputs, outputs), strict=True):
            table.arrive(signature)
        if tables:
            self._waiting.add(tracked.pending)

    def stop_waiting(self, tracked: TrackedCall) -> None:
        """Note, for this rank's own watching thread alone, that the rank waits no longer."""
        self._waiting.discard(tracked.pending)

    def leave(self, tracked: TrackedCall) -> None:
        """Note that the rank has done its part of a call."""
        for table in tracked.pending.tables:
            table.leave()
        self._progress.finish()


class TrackedCollectives:
    """The collectives of one rank that a library carries out; see `Collectives.run`.

    Subclasses name the library's errors (`failures`) and give the operation of each call.
    """

    failures: tuple[type[Exception], ...]

    def __init__(self, rank: Rank, tracker: CollectiveTracker) -> None:
        self._rank = rank
        self._tracker = tracker
        self._prepared: dict[int, tuple[TrackedCall, CarryOut]] = {}

    def run(self, call: Call, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Carry out `call` with the other members of its group."""
        tracked, carry_out = self._prepared.get(id(call)) or self._prepare(call)
        tracker = self._tracker
        tracker.enter(tracked, self.described(inputs), self.described(outputs))
        try:
            self.before(tracked)
            carry_out(inputs, outputs)
        except RankmeshError:
            raise
        except self.failures as error:
            found = mismatch(self._rank.rank, tracked.pending)
            if found:
                raise CollectiveMismatch(found[1]) from error
            raise self.explained(error, tracked) from error
        finally:
            tracker.stop_waiting(tracked)
        tracker.leave(tracked)
        found = mismatch(self._rank.rank, tracked.pending)
        if found:
            raise CollectiveMismatch(found[1])

    def close(self) -> None:
        """Forget the calls."""
        self._prepared.clear()

    def carry_out(self, call: Call) -> CarryOut:
        """The operation of one call, of two members or more, or of messages to itself."""
        raise NotImplementedError

    def described(self, arrays: Sequence[Array]) -> Sequence[SignedForm]:
        """The forms of arrays for their signature; arrays are their own."""
        return arrays

    def before(self, tracked: TrackedCall) -> None:
        """Run before each call."""

    def explained(self, error: Exception, tracked: TrackedCall) -> RankFailed:
        """The error for one of the library's, where all members came for the same collective."""
        return RankFailed(f"{self._rank}: {type(error).__name__} in {tracked.pending}: {error}")

    def _prepare(self, call: Call) -> tuple[TrackedCall, CarryOut]:
        """Find the operation of a call, once."""
        copying = call.group.size == 1 and call.kind not in ONE_WAY
        try:
            prepared = self._tracker.track(call), copy_all if copying else self.carry_out(call)
        except KeyError as missing:
            raise RankmeshError(
                f"{self._rank} did not prepare {missing} for {call}: every group and pair must be "
                "among those that the ranks joined with"
            ) from None
        self._prepared[id(call)] = prepared
        return prepared


def mismatch(rank: int, pending: PendingCollective) -> tuple[int, str] | None:
    """Another rank that came for another collective, and the message; None where all agree."""
    for table in pending.tables:
        found = table.differing()
        if found:
            mine, other, theirs = found
            both = " but ".join(
                f"rank {r} comes for {describe(signature)}"
                for r, signature in sorted(((rank, mine), (other, theirs)))
            )
            return other, (
                f"the ranks do not meet in the same collective: rank {rank} entered {pending}, and "
                f"there {both}. Check that all ranks run shards of one export"
            )
    return None
