"""Owner of replicas: takes the news of a replica, and has the table of its state and orders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ...comm.errors import RankmeshError
from ...comm.serving.orders import ModelReport
from ...comm.serving.ring import Ring
from ..requests.journal import Journal
from ..scheduling.batch import InflightOrder
from ..scheduling.replica_table import (
    FinishedOrder,
    ReplicaCondition,
    UnfinishedOrder,
    Withdrawn,
)
from ..scheduling.replica_weights import ReplicaWeights


class ReplicaStanding(Protocol):
    """A replica's condition, and how many updates of weights are in effect."""

    @property
    def condition(self) -> ReplicaCondition:
        """Whether it starts, takes orders, or has ended."""

    @property
    def weights_version(self) -> int:
        """How many updates are in effect for the orders that it gets now."""


class OrderTable(Protocol):
    """Conditions and orders of a model's replicas; see ReplicaTable, which is one."""

    @property
    def replicas(self) -> Sequence[ReplicaStanding]:
        """Where each stands, by number."""

    def oldest(self, replica: int) -> InflightOrder | None:
        """The oldest order of a replica; None where it has none."""

    def starting(self, replica: int) -> ReplicaWeights:
        """The weights that the ranks start with."""

    def stop(self, replica: int) -> None:
        """A replica takes no more orders, ever."""

    def withdraw(self, replica: int) -> Withdrawn:
        """Remove the orders of a replica whose ranks have failed."""

    def review(self, replica: int) -> FinishedOrder | UnfinishedOrder | None:
        """The oldest order of a replica, removed if it is finished."""

    def remove(self, replica: int, order: InflightOrder) -> None:
        """Remove an order, however it was answered."""


class ReplicaOwner(Protocol):
    """Called in the thread of the event loop; see Dispatcher, which is one."""

    journal: Journal

    @property
    def scheduler(self) -> OrderTable:
        """The table of the replicas."""

    @property
    def report(self) -> ModelReport | None:
        """The report of the model's first ranks, once there are any."""

    def replica_ready(
        self, replica: int, ring: Ring, reports: Sequence[ModelReport], ahead: bool
    ) -> None:
        """The ranks of a replica take orders, by `ring`."""

    def replica_switched(self, replica: int) -> None:
        """The ranks of a replica compute with the weights that were ordered."""

    def replica_failed(self, failure: Any) -> None:
        """The ranks of a replica have failed."""

    def batches_answered(self, replica: int, batches: Sequence[Any]) -> None:
        """All ranks have carried out orders."""

    def batch_refused(self, replica: int, batch: Any, error: RankmeshError) -> None:
        """An order has failed in the ranks, which are in step."""
