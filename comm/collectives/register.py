"""One rank's register of the collectives that a library carries out, so that others can tell who never came."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..arena import Arena
from ..progress import Progress
from ..rank import Rank
from .attendance import Attendance, open_lists
from .base import ONE_WAY, Array, Call, Kind
from .signature import Signer, describe

_SIZED_BY_OUTPUT = (Kind.BROADCAST, Kind.SCATTER)


class Roll:
    """Where a rank waits: the lists that one collective of its program is entered in; a Place."""

    def __init__(self, what: str, lists: Sequence[Attendance]) -> None:
        self.what = what
        self.lists = lists
        self.strangers = sorted({r for one in lists for r in one.strangers})

    def __str__(self) -> str:
        return self.what

    def missing(self) -> list[int]:
        """Who never came; else those whose process is stopped; else, if all are known here, who does not go on."""
        absent = sorted({r for one in self.lists for r in one.absent()})
        if absent:
            return absent
        inside = {r: one.process(r) for one in self.lists for r in one.inside()}
        stopped = sorted(r for r, process in inside.items() if _is_stopped(process))
        return stopped or ([] if self.strangers else sorted(inside))

    def entered(self, rank: int) -> bool:
        """See Place.entered."""
        return not any(rank in one.absent() for one in self.lists)

    def first_entry(self) -> int:
        """See Place.first_entry."""
        return min(one.first_arrival() for one in self.lists)


class Register:
    """Notes what this rank enters and leaves. `inside` are the rolls it is in now, for a watching thread."""

    def __init__(
        self, arena: Arena, rank: Rank, groups: Iterable[tuple[int, ...]], pairs: Iterable[tuple[int, int]],
        local: frozenset[int], inside: set[Roll],
    ) -> None:
        groups, pairs = sorted(set(groups)), sorted({(s, d) for s, d in pairs if s != d})
        lists = open_lists(arena, rank.rank, [*groups, *pairs], local)
        self._groups = dict(zip(groups, lists[:len(groups)], strict=True))
        self._pairs = dict(zip(pairs, lists[len(groups):], strict=True))
        self._rank = rank.rank
        self._progress = Progress(arena, rank.rank)
        self._count = 0
        self._inside = inside

    def page(self, call: Call) -> Page:
        """The place of one call, found once. Raises KeyError where its group or pair is none of those joined with."""
        members, me = call.group.ranks, self._rank
        to = [(i, (me, members[p])) for i, p in enumerate(call.sends_to) if members[p] != me]
        source = [(i, (members[p], me)) for i, p in enumerate(call.receives_from) if members[p] != me]
        if call.kind in ONE_WAY:
            lists = [self._pairs[pair] for _, pair in (*to, *source)]
        else:
            lists = [self._groups[members]] if len(members) > 1 else []
        roll = Roll(str(call), [one for one in lists if one is not None])
        return Page(call, roll, self._progress.announce(call), [i for i, _ in to], [i for i, _ in source])

    def enter(self, page: Page, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Note that the rank enters the call of `page` with these arrays."""
        self._count += 1
        self._progress.enter(self._count, page.ticket)
        for one, signature in zip(page.roll.lists, page.signatures(inputs, outputs), strict=True):
            one.arrive(signature)
        if page.roll.lists:
            self._inside.add(page.roll)

    def stop_watching(self, page: Page) -> None:
        """Note, for this rank's watching thread alone, that it waits no more."""
        self._inside.discard(page.roll)

    def leave(self, page: Page) -> None:
        """Note that the rank has done its part."""
        for one in page.roll.lists:
            one.leave()
        self._progress.finish()


class Page:
    """One call's roll, its ticket for Progress, and which of its arrays go to and come from others."""

    def __init__(self, call: Call, roll: Roll, ticket: int, sent: Sequence[int], received: Sequence[int]) -> None:
        self.call, self.roll, self.ticket = call, roll, ticket
        self.awaited = roll.lists[len(sent):]
        """The lists of those without whom this rank has nothing to receive."""
        self._sent, self._received = sent, received
        self._sign = Signer(call)

    def signatures(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> list[int]:
        """What this rank comes for, one for each list of the roll."""
        if self.call.kind in ONE_WAY:
            arrays = [inputs[i] for i in self._sent] + [outputs[i] for i in self._received]
            return [self._sign(x.dtype, x.nbytes) for x in arrays]
        arrays = list(outputs if self.call.kind in _SIZED_BY_OUTPUT else inputs)
        return [self._sign(arrays[0].dtype, sum(x.nbytes for x in arrays))] if self.roll.lists else []


def mismatch(rank: int, roll: Roll) -> tuple[int, str] | None:
    """Another rank that came to the roll's collective for something else, and what to say; None where all agree."""
    for one in roll.lists:
        found = one.differing()
        if found:
            mine, other, theirs = found
            pairs = sorted(((rank, mine), (other, theirs)))
            return other, (
                f"the ranks do not meet in the same collective: rank {rank} entered {roll}, and there "
                + " but ".join(f"rank {r} comes for {describe(signature)}" for r, signature in pairs)
                + ". Check that all ranks run shards of one export")
    return None


def _is_stopped(process: int) -> bool:
    """Whether a process of this host is stopped by a signal."""
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] in ("T", "t")
    except (OSError, IndexError):
        return False
