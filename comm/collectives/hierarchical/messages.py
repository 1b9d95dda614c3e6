"""Messages of one call: those to and from ranks of this host, and those to and from others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import msgspec

from ...collective_call import Call
from ..parts import Array
from ..tracking import CarryOut


class SplitMessages:
    """One Send, Receive or NeighborExchange, whose messages go by memory or by the network.

    Those of the host are first on all ranks, so no rank waits for one that waits for it.
    """

    def __init__(
        self,
        call: Call,
        local: Collection[int],
        by_memory: Callable[[Call], CarryOut],
        by_network: Callable[[Call], CarryOut],
    ) -> None:
        """`local` are the ranks of this host."""
        self._routes = [
            _Route(call, [rank in local for rank in call.group.ranks], by_memory),
            _Route(call, [rank not in local for rank in call.group.ranks], by_network),
        ]

    def __call__(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Send all inputs and receive all outputs."""
        for route in self._routes:
            route(inputs, outputs)


class _Route:
    """The messages of a call with some of the members."""

    def __init__(
        self, call: Call, members: Sequence[bool], operation_of: Callable[[Call], CarryOut]
    ) -> None:
        """`members` tells by position which ones."""
        self._inputs = [index for index, p in enumerate(call.sends_to) if members[p]]
        self._outputs = [index for index, p in enumerate(call.receives_from) if members[p]]
        part = msgspec.structs.replace(
            call,
            sends_to=tuple(call.sends_to[index] for index in self._inputs),
            receives_from=tuple(call.receives_from[index] for index in self._outputs),
        )
        self._operation = operation_of(part) if self._inputs or self._outputs else None

    def __call__(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        if self._operation is not None:
            self._operation([inputs[i] for i in self._inputs], [outputs[i] for i in self._outputs])
