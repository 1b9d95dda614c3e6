"""The check that the ranks' shards belong together: a comparison of their fingerprints.

Every rank makes it before anything runs. No shard states its rank, so it compares lists of members,
the sequence of collectives, pairs of Send and Receive, shapes and inputs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from ...comm.collective_call import ONE_WAY, Kind
from ...comm.collectives.registry import SHARED_MEMORY, backend_named
from ...comm.errors import ShardMismatch, UsageError
from .deadlock_check import find_deadlock
from .fingerprint import Fingerprint, Operand, ShardCollective

_LIVE = {True: "shares or updates its weights", False: "does not share or update its weights"}


class PeerMessage(NamedTuple):
    """One message between two ranks; that of a NeighborExchange is for a NeighborExchange."""

    exchanged: bool
    tag: int
    operand: Operand

    def fits(self, other: PeerMessage) -> bool:
        """Whether this message is the one that the other rank sends."""
        return self[:2] == other[:2] and self.operand.fits(other.operand)

    def __str__(self) -> str:
        return (
            f"{self.operand} {'by NeighborExchange' if self.exchanged else f'with tag {self.tag}'}"
        )


def check_shards(prints: Sequence[Fingerprint], implementation: str = SHARED_MEMORY) -> None:
    """Raise ShardMismatch, which names files and ranks, unless the shards fit together.

    `prints` is in rank order. `implementation` names the collectives that will carry them out,
    which decide how much a Send may leave behind.
    """
    for one in prints:
        _check_alike(prints[0], one)
    _check_groups(prints)
    _check_pairs(prints)
    _check_progress(prints, implementation)


def _fail(text: str) -> NoReturn:
    raise ShardMismatch(
        text + " The files are of different models or exports, or in the wrong order."
    )


def _check_alike(first: Fingerprint, other: Fingerprint) -> None:
    """Require the same inputs, and weights that are live on both ranks or on none."""
    if first.inputs != other.inputs:
        _fail(
            f"{other.path} (rank {other.rank}) has the inputs {list(other.inputs)}, and "
            f"{first.path} (rank {first.rank}) has {list(first.inputs)}: names and order must "
            "agree."
        )
    if first.slicing != other.slicing:
        raise ShardMismatch(
            f"{first.path} (rank {first.rank}) and {other.path} (rank {other.rank}) were not "
            "sliced together: they are of different plans, models or weights. Take all shards from "
            "one run of `rankmesh slice`."
        )
    if first.live != other.live:
        raise UsageError(
            f"rank {first.rank} {_LIVE[first.live]}, and rank {other.rank} {_LIVE[other.live]}: "
            "give all ranks the same of shareable_weight_pid_list or shareable_weight_mem_handle, "
            "and variable_weights_file; call update_weights on all of them."
        )


def _check_groups(prints: Sequence[Fingerprint]) -> None:
    """In each set of ranks, require the same collectives in the same order on all members."""
    sequences: dict[frozenset[int], dict[int, list[ShardCollective]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for one in prints:
        for entry in one.entries:
            if entry.call.kind not in ONE_WAY:
                sequences[frozenset(entry.call.group.ranks)][one.rank].append(entry)
    for members, by_rank in sequences.items():
        first = min(members)
        for rank in sorted(members - {first}):
            _compare(prints[first], prints[rank], by_rank[first], by_rank[rank])


def _compare(
    a: Fingerprint, b: Fingerprint, left: list[ShardCollective], right: list[ShardCollective]
) -> None:
    for one, other, place, other_place in zip(
        left, right, _places_of(left), _places_of(right), strict=False
    ):
        if one.call.group.ranks != other.call.group.ranks:
            _fail(
                f"{a.path} (rank {a.rank}) and {b.path} (rank {b.rank}) list the members of the "
                f"group '{one.call.group.name}' as {list(one.call.group.ranks)} and "
                f"{list(other.call.group.ranks)}."
            )
        if not _same(one, other):
            _fail(
                f"{a.path} (rank {a.rank}) and {b.path} (rank {b.rank}) disagree on a collective: "
                f"{_described(one)} against {_described(other)}."
            )
        if place != other_place:
            _fail(
                f"{a.path} (rank {a.rank}) and {b.path} (rank {b.rank}) disagree on where a "
                f"collective is: {one} {_around(one)}, {other} {_around(other)}."
            )
    if len(left) != len(right):
        longer, shorter, more = (a, b, left) if len(left) > len(right) else (b, a, right)
        _fail(
            f"{longer.path} (rank {longer.rank}) has the collective "
            f"{more[min(len(left), len(right))]}, which {shorter.path} (rank {shorter.rank}) lacks."
        )


def _places_of(entries: Sequence[ShardCollective]) -> list[tuple[tuple[str, int], ...]]:
    """The blocks around each collective of a group, numbered alike on all members."""
    numbers: dict[int, int] = {}
    return [
        tuple((a.word, numbers.setdefault(a.number, len(numbers))) for a in entry.around)
        for entry in entries
    ]


def _around(entry: ShardCollective) -> str:
    """The place of a collective, in words."""
    words = {"if": "an If's then branch", "else": "an If's else branch", "loop": "a Loop"}
    return (
        " in ".join(["is", *(words[a.word] for a in reversed(entry.around))])
        if entry.around
        else "is outside"
    )


def _same(one: ShardCollective, other: ShardCollective) -> bool:
    a, b = one.call, other.call
    if (a.kind, a.reduction, a.root) != (b.kind, b.reduction, b.root) or len(one.sends) != len(
        other.sends
    ):
        return False
    return all(x.fits(y) for x, y in zip(one.sends, other.sends, strict=True))


def _described(entry: ShardCollective) -> str:
    call = entry.call
    return (
        f"{entry} of {', '.join(map(str, entry.sends)) or 'nothing'} "
        f"({call.reduction.value}, root {call.root})"
    )


def _check_pairs(prints: Sequence[Fingerprint]) -> None:
    """Require that each rank receives from another the messages that this one sends, in order."""
    sent: dict[tuple[int, int], list[PeerMessage]] = defaultdict(list)
    expected: dict[tuple[int, int], list[PeerMessage]] = defaultdict(list)
    for one in prints:
        for entry in one.entries:
            exchanged, tag = entry.call.kind is Kind.NEIGHBOR_EXCHANGE, entry.call.tag
            for peer, operand in zip(entry.destinations, entry.sends, strict=False):
                sent[one.rank, peer].append(PeerMessage(exchanged, tag, operand))
            for peer, operand in zip(entry.sources, entry.receives, strict=False):
                expected[peer, one.rank].append(PeerMessage(exchanged, tag, operand))
    for source, target in sorted(sent.keys() | expected.keys()):
        _compare_pair(
            prints[source], prints[target], sent[source, target], expected[source, target]
        )


def _compare_pair(
    source: Fingerprint, target: Fingerprint, sent: list[PeerMessage], expected: list[PeerMessage]
) -> None:
    who = f"{source.path} (rank {source.rank}) sends rank {target.rank}"
    whom = f"{target.path} (rank {target.rank}) receives"
    if len(sent) != len(expected):
        _fail(
            f"{who} {len(sent)} tensors, and {whom} {len(expected)} from it: each Send needs its "
            "Receive, each NeighborExchange its partner."
        )
    for message, wanted in zip(sent, expected, strict=True):
        if not message.fits(wanted):
            _fail(f"{who} {message}, and {whom} {wanted}.")


def _check_progress(prints: Sequence[Fingerprint], implementation: str) -> None:
    """Refuse shards in which ranks would wait for each other forever."""
    stuck = find_deadlock(prints, None)
    if stuck:
        _fail(f"The ranks would wait for each other for ever: {_places(stuck)}.")
    room = backend_named(implementation).send_capacity
    stuck = (
        find_deadlock(prints, room) if len(prints) > 1 else []
    )  # a lone rank keeps what it sends to itself
    if stuck:
        raise ShardMismatch(
            f"The ranks would wait for each other for ever: {_places(stuck)}. With the collectives "
            f"{implementation} a Send waits for its Receive{room.exception}: place the Receive of "
            "one of these ranks before its Send, or use NeighborExchange."
        )


def _places(stuck: Sequence[tuple[Fingerprint, ShardCollective]]) -> str:
    return "; ".join(f"{one.path} (rank {one.rank}) in {entry}" for one, entry in stuck[:4])
