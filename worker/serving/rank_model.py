"""Model of a rank: answers an orchestrator's orders, by a shard or by a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from ...comm.arrays import Array
from ...comm.serving.orders import ModelReport
from ...comm.serving.weights import WeightReply, WeightRequest


class RankModel(Protocol):
    """One thread runs requests and calls `switch`; one other thread may call `reply`.

    Arrays are keyed by the names of the report. String tensors are packed, as in shared memory.
    """

    @property
    def report(self) -> ModelReport:
        """Its inputs and outputs."""

    @property
    def collective_seconds(self) -> float:
        """The time that requests have spent in collectives so far."""

    def borrow(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """The outputs of a request; they may be read until the next one only."""

    def bound(
        self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]
    ) -> Callable[[], object] | None:
        """A call that runs requests of just these arrays, and writes the outputs in place; None
        where there is none.
        """

    def switch(self, number: int) -> None:
        """Compute with the edition `number` of the weights, which was staged, from now on."""

    def reply(self, question: WeightRequest) -> WeightReply:
        """Do what is asked of the weights."""
