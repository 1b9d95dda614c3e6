"""Random collectives with their inputs and, from numpy alone, what must come out of them."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from rankmesh.comm.collective_call import REDUCING, Call, Kind, RankGroup, Reduction
from rankmesh.comm.collectives.backend import Collectives
from rankmesh.comm.collectives.parts import REDUCERS, Array

DTYPES = {
    name: np.dtype(name)
    for name in ("float16", "float32", "float64", "int8", "int32", "int64", "bool")
}
DTYPES["bfloat16"] = np.dtype(ml_dtypes.bfloat16)

# Relative to the largest element of the exact result, per member: one rounding of the type each.
TOLERANCES = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 2e-7, "float64": 4e-16}

# Elements: nothing, one, odd, more than one 1 MB slot of float32, several MB.
SIZES = (0, 1, 1, 37, 37, 1000, 1000, 4099, 300_001, 1_500_007)

KINDS = [kind.value for kind in Kind if kind is not Kind.RECEIVE]  # every Send has its Receive

# Elements after which an input repeats itself: a prime, so that a part or slot in the place of
# another differs. To draw 64 MB of random numbers takes longer than to exchange them.
_PERIOD = 65_537

_PER_MEMBER = (Kind.REDUCE_SCATTER, Kind.ALL_TO_ALL, Kind.SCATTER)


@dataclass(frozen=True)
class Case:
    """One collective of one group; `size` is the size of a part where there are parts."""

    number: int
    kind: Kind
    members: tuple[int, ...]
    dtype: str
    size: int
    scalar: bool
    in_place: bool
    reduction: Reduction
    root: int
    shift: int

    @property
    def n(self) -> int:
        return len(self.members)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a member's input."""
        if self.scalar:
            return ()
        return (self.size * self.n,) if self.kind in _PER_MEMBER else (self.size,)

    def call(self, position: int) -> Call:
        """The call of one member."""
        to, source = ((position + self.shift) % self.n,), ((position - self.shift) % self.n,)
        if self.kind is Kind.SEND:  # one way: from position 0 to position 1
            to, source = ((1,), ()) if position == 0 else ((), (0,))
        elif self.kind is not Kind.NEIGHBOR_EXCHANGE:
            to, source = (), ()
        kind = Kind.RECEIVE if self.kind is Kind.SEND and position == 1 else self.kind
        return Call(
            kind=kind,
            group=RankGroup("some", self.members),
            index=self.number,
            node=f"node{self.number}",
            reduction=self.reduction,
            root=self.root,
            sends_to=to,
            receives_from=source,
            tag=self.number % 100,
        )


def make_cases(world: int, seed: int, count: int, kinds: list[str]) -> list[Case]:
    """The same list on every rank, over three groups of each size: to make a group takes libraries
    longer than to use it.
    """
    random = np.random.default_rng(seed)
    groups = [
        tuple(map(int, random.permutation(world)[:size]))
        for size in range(1, world + 1)
        for _ in range(3)
    ]
    return [_case(random, number, groups, Kind(random.choice(kinds))) for number in range(count)]


def _case(
    random: np.random.Generator, number: int, groups: list[tuple[int, ...]], kind: Kind
) -> Case:
    members = groups[random.integers(len(groups))]
    if kind is Kind.SEND and len(members) != 2:
        kind = Kind.NEIGHBOR_EXCHANGE
    scalar = (
        kind in (Kind.ALL_REDUCE, Kind.BROADCAST, Kind.REDUCE, Kind.SEND) and random.random() < 0.1
    )
    return Case(
        number=number,
        kind=kind,
        members=members,
        dtype=str(random.choice(list(DTYPES))),
        size=1 if scalar else int(random.choice(SIZES)),
        scalar=scalar,
        in_place=kind in (Kind.ALL_REDUCE, Kind.BROADCAST) and random.random() < 0.5,
        reduction=Reduction(random.choice([r.value for r in Reduction])),
        root=int(random.integers(len(members))),
        shift=int(random.integers(len(members))),
    )


def inputs_of(case: Case, position: int) -> list[Array]:
    """What a member brings."""
    if case.kind is Kind.SEND and position == 1:
        return []
    return [_input(case, position)]


def expected(case: Case, position: int) -> list[Array]:
    """What a member must get; reduced from left to right in the arrays' own type."""
    if case.kind is Kind.SEND:
        return [_input(case, 0)] if position == 1 else []
    if case.kind is Kind.NEIGHBOR_EXCHANGE:
        return [_input(case, (position - case.shift) % case.n)]
    if case.kind is Kind.BROADCAST:
        return [_input(case, case.root)]
    if case.kind is Kind.SCATTER:
        return [_part(_input(case, case.root), position, case.n)]
    inputs = [_input(case, p) for p in range(case.n)]
    if case.kind in REDUCING:
        whole = _reduced(case, inputs)
        if case.kind is Kind.REDUCE_SCATTER:
            whole = _part(whole, position, case.n)
    elif case.kind is Kind.ALL_TO_ALL:
        whole = np.concatenate([_part(x, position, case.n) for x in inputs])
    else:
        whole = np.concatenate(inputs)
    at_root_only = case.kind in (Kind.REDUCE, Kind.GATHER) and position != case.root
    return [np.zeros_like(whole) if at_root_only else whole]


def large_cases(world: int) -> list[Case]:
    """64 MB: reduced by all ranks, moved between two of them."""
    everybody, two = tuple(range(world)), (world - 1, 0)
    kinds = (
        (Kind.ALL_REDUCE, everybody, "float32", 16 << 20),
        (Kind.ALL_GATHER, two, "int8", 32 << 20),
        (Kind.BROADCAST, two, "float64", 8 << 20),
        (Kind.NEIGHBOR_EXCHANGE, two, "bool", 64 << 20),
    )
    return [
        Case(
            number=number,
            kind=kind,
            members=members,
            dtype=dtype,
            size=size,
            scalar=False,
            in_place=False,
            reduction=Reduction.SUM,
            root=1,
            shift=1,
        )
        for number, (kind, members, dtype, size) in enumerate(kinds)
    ]


def play(
    collectives: Collectives, cases: list[Case], rank: int, in_order: bool
) -> tuple[list[str], dict[int, str]]:
    """Run the cases that `rank` is a member of: what is wrong, and a digest of what each AllReduce
    gave.

    `in_order` is whether reductions must be formed in the order of positions, bit for bit.
    """
    wrong: list[str] = []
    digests = {}
    for case in cases:
        if rank not in case.members:
            continue
        position = case.members.index(rank)
        inputs, wanted = inputs_of(case, position), expected(case, position)
        outputs = [np.full_like(x, 1) for x in wanted]  # full of rubbish
        if case.in_place:
            outputs = inputs
        elif case.number % 2:
            for x in inputs:
                x.flags.writeable = False
        collectives.run(case.call(position), inputs, outputs)
        wrong += [
            f"{case} at position {position}: {p}" for p in problems(case, outputs, wanted, in_order)
        ]
        if case.kind is Kind.ALL_REDUCE:
            digests[case.number] = hashlib.blake2b(outputs[0].tobytes(), digest_size=8).hexdigest()
    return wrong, digests


def disagreements(digests: list[dict[int, str]]) -> list[int]:
    """The cases whose members did not all get the same bits."""
    return sorted(
        number
        for number in set().union(*digests)
        if len({one[number] for one in digests if number in one}) > 1
    )


def problems(case: Case, outputs: list[Array], wanted: list[Array], in_order: bool) -> list[str]:
    """How outputs differ: from the left-to-right result (bit for bit, or by tolerance) and from the
    exact one.
    """
    found = []
    for got, want in zip(outputs, wanted, strict=True):
        rounded = case.kind in REDUCING and case.dtype in TOLERANCES and got.size > 0
        if (got.shape, got.dtype) != (want.shape, want.dtype):
            found.append(f"{got.dtype}{got.shape} instead of {want.dtype}{want.shape}")
        elif in_order or not rounded:
            if not np.array_equal(got, want):
                found.append(f"{np.count_nonzero(got != want)} of {got.size} elements are wrong")
        elif (error := _distance(got, want)) > 2 * TOLERANCES[case.dtype] * case.n:
            found.append(f"{error} from the result in order")
        if (
            case.kind is Kind.ALL_REDUCE
            and rounded
            and (error := _distance(got, _exact(case))) > (TOLERANCES[case.dtype] * case.n)
        ):
            found.append(f"relative error {error}")
    return found


def _distance(got: Array, want: Array) -> float:
    error = np.abs(np.subtract(got, want, dtype=np.float64)).max()
    return float(error / max(float(np.abs(want).max()), 1e-6))


def _input(case: Case, position: int) -> Array:
    random = np.random.default_rng((case.number, position))
    size = min(math.prod(case.shape), _PERIOD)
    numbers = random.integers(0, 17, size, np.int8)
    values = numbers / 5 + 0.4 if case.dtype in TOLERANCES else numbers % 4
    return np.resize(values.astype(DTYPES[case.dtype]), case.shape)


def _part(x: Array, position: int, n: int) -> Array:
    return x.reshape(n, -1)[position] if x.size else x


def _reduced(case: Case, inputs: list[Array]) -> Array:
    whole: Any = inputs[0].copy()
    for x in inputs[1:]:
        REDUCERS[case.reduction](whole, x, out=whole)
    return np.asarray(whole)


def _exact(case: Case) -> Array:
    inputs = [_input(case, p).reshape(-1)[:_PERIOD].astype(np.float64) for p in range(case.n)]
    return np.resize(_reduced(case, inputs), case.shape)
