"""Collective calls: kinds of collectives, groups of ranks, and one call of a rank's program.

Between two segments of a plan: each collective step makes one Call, and a backend of
comm/collectives carries it out together with the other ranks of the group.

The meaning of each kind is that of MindSpore's primitive (mindspore.ops.AllReduce and others).
Positions (`root`, `sends_to`, `receives_from`) count inside the group, as in the attributes of the
primitives.
"""

from __future__ import annotations

from enum import Enum

import msgspec


class Kind(str, Enum):
    """The kinds of collectives, named as MindSpore's primitives and as our ONNX operators."""

    ALL_REDUCE = "AllReduce"
    ALL_GATHER = "AllGather"
    REDUCE_SCATTER = "ReduceScatter"
    ALL_TO_ALL = "AllToAll"
    BROADCAST = "Broadcast"
    REDUCE = "Reduce"
    GATHER = "CollectiveGather"
    SCATTER = "CollectiveScatter"
    SEND = "Send"
    RECEIVE = "Receive"
    NEIGHBOR_EXCHANGE = "NeighborExchange"


ONE_WAY = (Kind.SEND, Kind.RECEIVE, Kind.NEIGHBOR_EXCHANGE)
"""Kinds that go between pairs of ranks; all others are of a group."""

REDUCING = (Kind.ALL_REDUCE, Kind.REDUCE, Kind.REDUCE_SCATTER)
"""Kinds that combine the ranks' elements; all others move them as they are."""


class Reduction(str, Enum):
    """The operation that combines the ranks' elements."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    PROD = "prod"


class RankGroup(msgspec.Struct, frozen=True):
    """An ordered set of global ranks; a member's index in `ranks` is its position."""

    name: str
    ranks: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of ranks in the group."""
        return len(self.ranks)


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One collective of a rank's program, fixed when the plan is made.

    `index` counts the collectives of the program from 0; `node` is the graph node, for messages.
    """

    kind: Kind
    group: RankGroup
    index: int = 0
    node: str = ""
    reduction: Reduction = Reduction.SUM
    root: int = 0
    sends_to: tuple[int, ...] = ()
    receives_from: tuple[int, ...] = ()
    tag: int = 0

    def __str__(self) -> str:
        at = f" of node {self.node!r}" if self.node else ""
        return f"collective {self.index} ({self.kind.value}{at})"
