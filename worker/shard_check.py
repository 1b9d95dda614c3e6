"""Do the ranks' shards belong together? Compared before anything runs, by every rank alike.

Nothing in a shard says "rank r of n", so what can be compared is: member lists, the sequence of collectives, the
pairs of Send and Receive, shapes, inputs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NoReturn

import msgspec

from ..comm.collectives.base import Call, Kind
from ..comm.errors import ShardMismatch
from .collective_types import shapes_fit
from .plan import Plan

_POINT_TO_POINT = {Kind.SEND, Kind.RECEIVE, Kind.NEIGHBOR_EXCHANGE}
Shape = tuple[int, ...] | None


class Operand(msgspec.Struct, frozen=True):
    """dtype and shape of a tensor that a collective moves."""

    dtype: str
    shape: Shape

    def fits(self, other: Operand) -> bool:
        """Same dtype, and no known dimension that differs."""
        return self.dtype == other.dtype and shapes_fit(self.shape, other.shape)

    def __str__(self) -> str:
        return self.dtype + ("[?]" if self.shape is None else str(list(self.shape)))


class Entry(msgspec.Struct, frozen=True):
    """One collective of a shard, with what it sends and receives."""

    call: Call
    sends: tuple[Operand, ...]
    receives: tuple[Operand, ...]

    def __str__(self) -> str:
        return f"{self.call.kind.value} {self.call.node}"


class Fingerprint(msgspec.Struct, frozen=True):
    """What a rank tells the others about its shard."""

    rank: int
    path: str
    inputs: tuple[str, ...]
    entries: tuple[Entry, ...]


def fingerprint(plan: Plan, rank: int) -> Fingerprint:
    """The fingerprint of a rank's plan."""
    entries = []
    for step in plan.exchanges:
        sends, receives = (tuple(Operand(plan.types[n].dtype.name, plan.types[n].shape) for n in names)
                           for names in (step.inputs, step.outputs))
        entries.append(Entry(step.call, sends, receives))
    return Fingerprint(rank, plan.path, tuple(i.name for i in plan.inputs), tuple(entries))


def check_shards(prints: Sequence[Fingerprint]) -> None:
    """Raise ShardMismatch, naming files and ranks, unless the shards fit together. `prints` is in rank order."""
    for one in prints:
        _check_inputs(prints[0], one)
    _check_groups(prints)
    _check_pairs(prints)
    _check_progress(prints)


def _fail(text: str) -> NoReturn:
    raise ShardMismatch(text + " The files are of different models or exports, or in the wrong order.")


def _check_inputs(first: Fingerprint, other: Fingerprint) -> None:
    if first.inputs != other.inputs:
        _fail(f"{other.path} (rank {other.rank}) has the inputs {list(other.inputs)}, and {first.path} "
              f"(rank {first.rank}) has {list(first.inputs)}: names and order must agree.")


def _check_groups(prints: Sequence[Fingerprint]) -> None:
    """Within each set of ranks, all members must list the same collectives in the same order."""
    sequences: dict[frozenset[int], dict[int, list[Entry]]] = defaultdict(lambda: defaultdict(list))
    for one in prints:
        for entry in one.entries:
            if entry.call.kind not in _POINT_TO_POINT:
                sequences[frozenset(entry.call.group.ranks)][one.rank].append(entry)
    for members, by_rank in sequences.items():
        first = min(members)
        for rank in sorted(members - {first}):
            _compare(prints[first], prints[rank], by_rank[first], by_rank[rank])


def _compare(a: Fingerprint, b: Fingerprint, left: list[Entry], right: list[Entry]) -> None:
    for one, other in zip(left, right, strict=False):
        if one.call.group.ranks != other.call.group.ranks:
            _fail(f"{a.path} (rank {a.rank}) and {b.path} (rank {b.rank}) list the members of the group "
                  f"'{one.call.group.name}' as {list(one.call.group.ranks)} and {list(other.call.group.ranks)}.")
        if not _same(one, other):
            _fail(f"{a.path} (rank {a.rank}) and {b.path} (rank {b.rank}) disagree on a collective: {_described(one)} "
                  f"against {_described(other)}.")
    if len(left) != len(right):
        longer, shorter, more = (a, b, left) if len(left) > len(right) else (b, a, right)
        _fail(f"{longer.path} (rank {longer.rank}) has the collective {more[min(len(left), len(right))]}, which "
              f"{shorter.path} (rank {shorter.rank}) lacks.")


def _same(one: Entry, other: Entry) -> bool:
    a, b = one.call, other.call
    if (a.kind, a.reduction, a.root) != (b.kind, b.reduction, b.root) or len(one.sends) != len(other.sends):
        return False
    return all(x.fits(y) for x, y in zip(one.sends, other.sends, strict=True))


def _described(entry: Entry) -> str:
    call = entry.call
    return f"{entry} of {', '.join(map(str, entry.sends)) or 'nothing'} ({call.reduction.value}, root {call.root})"


def _check_pairs(prints: Sequence[Fingerprint]) -> None:
    """What a rank sends to another must be what that one receives from it, in order."""
    sent: dict[tuple[int, int], list[tuple[int, Operand]]] = defaultdict(list)
    expected: dict[tuple[int, int], list[tuple[int, Operand]]] = defaultdict(list)
    for one in prints:
        for entry in one.entries:
            for peer, operand in zip(_ranks(entry.call, entry.call.sends_to), entry.sends, strict=False):
                sent[one.rank, peer].append((entry.call.tag, operand))
            for peer, operand in zip(_ranks(entry.call, entry.call.receives_from), entry.receives, strict=False):
                expected[peer, one.rank].append((entry.call.tag, operand))
    for source, target in sorted(sent.keys() | expected.keys()):
        _compare_pair(prints[source], prints[target], sent[source, target], expected[source, target])


def _ranks(call: Call, positions: Sequence[int]) -> Iterator[int]:
    return (call.group.ranks[position] for position in positions)


def _compare_pair(source: Fingerprint, target: Fingerprint, sent: list[tuple[int, Operand]],
                  expected: list[tuple[int, Operand]]) -> None:
    who = f"{source.path} (rank {source.rank}) sends rank {target.rank}"
    whom = f"{target.path} (rank {target.rank}) receives"
    if len(sent) != len(expected):
        _fail(f"{who} {len(sent)} tensors, and {whom} {len(expected)} from it: each Send needs its Receive.")
    for (tag, operand), (expected_tag, expected_operand) in zip(sent, expected, strict=True):
        if tag != expected_tag or not operand.fits(expected_operand):
            _fail(f"{who} {operand} with tag {tag}, and {whom} {expected_operand} with tag {expected_tag}.")


def _check_progress(prints: Sequence[Fingerprint]) -> None:
    """Run the collectives in thought; refuse shards in which ranks would wait for each other for ever."""
    at = [0] * len(prints)
    mail: Counter[tuple[int, int]] = Counter()
    posted: set[tuple[int, int]] = set()
    moved = True
    while moved:
        moved = False
        for one in prints:
            while at[one.rank] < len(one.entries) and _advance(one, prints, at, mail, posted):
                moved = True
    stuck = [one for one in prints if at[one.rank] < len(one.entries)]
    if stuck:
        where = "; ".join(f"{one.path} (rank {one.rank}) in {one.entries[at[one.rank]]}" for one in stuck[:4])
        _fail(f"The ranks would wait for each other for ever: {where}.")


def _advance(one: Fingerprint, prints: Sequence[Fingerprint], at: list[int], mail: Counter[tuple[int, int]],
             posted: set[tuple[int, int]]) -> bool:
    """Whether the next collective of a rank can be passed; if so, all that take part have passed it."""
    call = one.entries[at[one.rank]].call
    if call.kind not in _POINT_TO_POINT:
        return _advance_group(call, prints, at)
    if (one.rank, at[one.rank]) not in posted:
        posted.add((one.rank, at[one.rank]))
        mail.update((one.rank, peer) for peer in _ranks(call, call.sends_to))
    wanted = Counter((peer, one.rank) for peer in _ranks(call, call.receives_from))
    if any(mail[pair] < count for pair, count in wanted.items()):
        return False
    mail.subtract(wanted)
    at[one.rank] += 1
    return True


def _advance_group(call: Call, prints: Sequence[Fingerprint], at: list[int]) -> bool:
    for rank in call.group.ranks:
        entries = prints[rank].entries
        if at[rank] >= len(entries) or entries[at[rank]].call.kind in _POINT_TO_POINT:
            return False
        if set(entries[at[rank]].call.group.ranks) != set(call.group.ranks):
            return False
    for rank in call.group.ranks:
        at[rank] += 1
    return True
