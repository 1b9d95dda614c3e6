"""What a collective is, whoever carries it out: kinds, groups, one call, and the protocol.

The meaning of each kind is MindSpore's (mindspore.ops.AllReduce and its siblings); every array is
C-contiguous and lives on the host. Positions (`root`, `sends_to`, `receives_from`) count inside the
group, as in the primitives' attributes.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[Any]"


class Kind(str, Enum):
    """The collectives, named as MindSpore's primitives and as our ONNX operators."""

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
"""Those that go between pairs of ranks; all others are of a group."""

REDUCING = (Kind.ALL_REDUCE, Kind.REDUCE, Kind.REDUCE_SCATTER)
"""Those that combine the ranks' elements; all others move them as they are."""


class Reduction(str, Enum):
    """How AllReduce, ReduceScatter and Reduce combine the ranks' elements."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    PROD = "prod"


class Group(msgspec.Struct, frozen=True):
    """An ordered set of global ranks; a member's index in `ranks` is its position."""

    name: str
    ranks: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many ranks the group has."""
        return len(self.ranks)


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One collective of one rank's program, fixed when the plan is made.

    `index` counts the collectives of this rank's program from 0; `node` is the graph node, for messages.
    """

    kind: Kind
    group: Group
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


class Collectives(Protocol):
    """Carries out calls; one instance per rank, used from one thread at a time."""

    name: str

    def run(self, call: Call, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Carry out `call`, reading `inputs` and filling `outputs`; returns when the outputs are ready.

        n is the size of the group; arrays have any numpy dtype unless said otherwise:

        - AllReduce: x -> same shape, reduced; `outputs[0]` may be `inputs[0]`.
        - AllGather: x[d, ...] -> [n*d, ...], the members' arrays in order of position.
        - ReduceScatter: x[n*d, ...] -> [d, ...], this member's part of the reduced array.
        - AllToAll: x[n*d, ...] -> [n*d, ...]: block p of the output is block `mine` of member p.
        - Broadcast: any number of arrays -> the same ones of member `root`; may be done in place.
        - Reduce: x -> reduced at `root`; zeros elsewhere, in whatever shape the output has there.
        - CollectiveGather: x[d, ...] -> [n*d, ...] at `root`; zeros elsewhere, likewise.
        - CollectiveScatter: x[n*d, ...] (read at `root` only) -> [d, ...].
        - Send: x goes to `sends_to[0]` (no outputs). Receive: fills outputs[0] from `receives_from[0]`.
        - NeighborExchange: inputs[i] goes to `sends_to[i]`, outputs[i] comes from `receives_from[i]`.

        Raises CollectiveTimeout, CollectiveMismatch or CollectiveAborted; the group is unusable after.
        """

    def close(self) -> None:
        """Free what this rank holds; never blocks."""
