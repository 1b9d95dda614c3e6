"""The collectives of a world of one rank: every result is this rank's own operand."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence

from ..errors import CollectiveMismatch
from .base import Array, Call, Kind


class AloneCollectives:
    """Copies operands to results; what the rank sends to itself waits here until it is received."""

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
            for source, result in zip(inputs, outputs, strict=True):
                result[...] = source

    def close(self) -> None:
        """See Collectives.close."""
        self._sent.clear()

    def _received(self, call: Call) -> Array:
        if not self._sent[call.tag]:
            raise CollectiveMismatch(f"node {call.node} ({call.kind.value}) waits for a message that this rank, the "
                                     f"only one, has not sent before. Place its Send earlier in the model.")
        return self._sent[call.tag].popleft()
