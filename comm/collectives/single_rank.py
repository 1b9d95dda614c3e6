"""Collectives of a single rank: every result is the operand of this rank."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence

from ..collective_call import Call, Kind
from ..errors import CollectiveMismatch
from .parts import Array, copy_all


class SingleRankCollectives:
    """Copies operands to results; a message to itself waits here until it is received."""

    name = "alone"

    def __init__(self) -> None:
        self._sent: defaultdict[int, deque[Array]] = defaultdict(deque)

    def run(self, call: Call, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """See Collectives.run."""
        if call.kind is Kind.SEND:
            self._sent[call.tag].append(inputs[0].copy())
        elif call.kind is Kind.RECEIVE:
            outputs[0][...] = self._received(call)
        else:
            copy_all(inputs, outputs)

    def close(self) -> None:
        """See Collectives.close."""
        self._sent.clear()

    def _received(self, call: Call) -> Array:
        if not self._sent[call.tag]:
            raise CollectiveMismatch(
                f"node {call.node} ({call.kind.value}) waits for a message that this rank, the "
                "only one, has not sent before. Place its Send earlier in the model."
            )
        return self._sent[call.tag].popleft()
