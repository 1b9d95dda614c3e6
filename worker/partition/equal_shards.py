"""Refusal of equal shards: members of a group that would put the same operand into a collective.

Shards of a slicing say which rank they are for. Others do not: a shard that was given to two ranks
shows only in the values that these compute: the sum over the group counts one part twice, and
leaves another out.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from ...comm.collective_call import ONE_WAY, REDUCING, Kind, Reduction
from ...comm.decoding import decode_payloads
from ...comm.errors import ShardMismatch
from ...comm.job.shard import sibling_pattern
from ...comm.loggers import LOG
from .fingerprint import EqualShardPolicy, Fingerprint, ShardCollective
from .plan import Origin

ALLOW = "RANKMESH_ALLOW_EQUAL_SHARDS"
_JOINING = (Kind.ALL_GATHER, Kind.GATHER, Kind.ALL_TO_ALL)
Places = dict[int, int]


class Origins(msgspec.Struct, frozen=True):
    """The origins of all collectives of a rank, which ranks exchange when samples were equal."""

    found: tuple[Origin, ...]

    def of(self, number: int) -> Origin | None:
        """The origin of the operands of one collective; None where there is none."""
        return self.found[number] if number < len(self.found) else None


class Suspicion(NamedTuple):
    """A collective into which `ranks` put the same operand, as far as samples tell.

    `places` has the number of its entry on each member. `entry` is that of the first of `ranks`.
    """

    places: Places
    ranks: list[int]
    entry: ShardCollective

    @property
    def wrong(self) -> bool:
        """Whether equal operands are wrong even if each rank may have inputs of its own.

        Such ranks often join their results, and seldom add them up.
        """
        origin = self.entry.origin
        return self.entry.call.kind in REDUCING or origin is not None and not origin.of_inputs


def asked(allowed: bool = False, same_inputs: bool | None = None) -> EqualShardPolicy:
    """The policy of an option, or of the environment."""
    return EqualShardPolicy(allowed or os.environ.get(ALLOW, "0") not in ("", "0"), same_inputs)


def check_equal_shards(
    prints: Sequence[Fingerprint],
    mine: int,
    whole: Callable[[], Sequence[Origin]],
    exchange: Callable[[bytes], list[bytes]],
) -> None:
    """Raise ShardMismatch where members of a group compute the same operand from the same weights.

    `prints` fit together (see check_shards), and `mine` is this rank. Fingerprints have samples of
    the weights. Before a refusal, all ranks `exchange` the origins that `whole` computes of all
    bytes.
    """
    if any(one.equal_shards.allowed for one in prints) or all(one.placed for one in prints):
        return  # ranks of a slicing may add the same zeros, or the same term of a maximum
    found = list(_suspicions(prints))
    inputs = {one.equal_shards.same_inputs for one in prints}
    refused = [one for one in found if one.wrong or inputs == {True}]
    if refused:
        complete = decode_payloads(
            exchange(msgspec.msgpack.encode(Origins(tuple(whole())))), Origins
        )
        for suspicion in refused:
            _refuse(suspicion, prints, complete)
    elif found and False not in inputs and mine == found[0].ranks[0]:
        _warn(found[0], prints)


def _suspicions(prints: Sequence[Fingerprint]) -> Iterator[Suspicion]:
    """The collectives with equal samples, in the order of the first rank that has them."""
    together: dict[tuple[frozenset[int], int], Places] = defaultdict(dict)
    for one in prints:
        counts: Counter[frozenset[int]] = Counter()
        for number, entry in enumerate(one.entries):
            members = frozenset(entry.call.group.ranks)
            if entry.call.kind not in ONE_WAY:
                together[members, counts[members]][one.rank] = number
                counts[members] += 1
    for places in together.values():
        ranks = _equal(
            {rank: prints[rank].entries[number].origin for rank, number in places.items()}
        )
        if ranks:
            entry = prints[ranks[0]].entries[places[ranks[0]]]
            # an operand that comes twice changes a sum, and no maximum
            adds = entry.call.reduction in (Reduction.SUM, Reduction.PROD)
            if entry.call.kind in _JOINING or entry.call.kind in REDUCING and adds:
                yield Suspicion(places, ranks, entry)


def _equal(found: dict[int, Origin | None]) -> list[int]:
    """The first two or more ranks of equal origin; none where no weights are in it."""
    by_digest: dict[bytes, list[int]] = defaultdict(list)
    for rank, origin in sorted(found.items()):
        if origin is not None and origin.weights:
            by_digest[origin.digest].append(rank)
    return next((ranks for ranks in by_digest.values() if len(ranks) > 1), [])


def _refuse(
    suspicion: Suspicion, prints: Sequence[Fingerprint], complete: Sequence[Origins]
) -> None:
    ranks = _equal({rank: complete[rank].of(number) for rank, number in suspicion.places.items()})
    origin = complete[ranks[0]].of(suspicion.places[ranks[0]]) if ranks else None
    if origin:
        raise ShardMismatch(
            f"{_told(suspicion.entry, ranks, origin, prints)} {_advice(prints)} If equal shards "
            f"are intended, for ranks with inputs of their own, allow them: --allow-equal-shards, "
            f"allow_equal_shards of an Orchestrator, or {ALLOW}=1."
        )


def _warn(suspicion: Suspicion, prints: Sequence[Fingerprint]) -> None:
    """Warn about shards that are right only where the ranks' inputs differ."""
    origin = suspicion.entry.origin
    if origin:
        LOG.warning(
            "%s That is right only where each rank has inputs of its own: %s=1 then silences this "
            "warning. %s",
            _told(suspicion.entry, suspicion.ranks, origin, prints),
            ALLOW,
            _advice(prints),
        )


def _told(
    entry: ShardCollective, ranks: Sequence[int], origin: Origin, prints: Sequence[Fingerprint]
) -> str:
    files = " and ".join(f"{prints[rank].path} (rank {rank})" for rank in ranks[:2])
    more = f" and {len(ranks) - 2} more ranks" if len(ranks) > 2 else ""
    does = "add up" if entry.call.kind in REDUCING else "join"
    return (
        f"{files}{more} are equal shards: {entry} would {does} the same part {len(ranks)} times, "
        f"computed by the same nodes from the same weights ({', '.join(origin.weights)})."
    )


def _advice(prints: Sequence[Fingerprint]) -> str:
    meant = sibling_pattern([one.path for one in prints])
    return f"Did you mean {meant}?" if meant else "Give each rank its own shard."
