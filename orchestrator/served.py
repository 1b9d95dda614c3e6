"""Served: a version of a model or of a chain, as an orchestrator handles all of them."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..comm.job.placement import RankSpec
from .config.class_labels import ClassLabels
from .config.settings import ServedSettings
from .replica.replica import Replica
from .requests.journal import Journal
from .requests.metrics import ModelMetrics
from .scheduling.request_client import RequestClient
from .weights.weight_updates import WeightUpdates

if TYPE_CHECKING:
    from .generation.step_table import StepTable
    from .replica.rank_status import DecoderStatus
    from .scheduling.replica_table import ReplicaTable


class Served(ABC):
    """One version of a model or chain: it answers requests by its client."""

    ranks: tuple[RankSpec, ...] = ()
    table: ReplicaTable | StepTable | None = None
    """The conditions of its replicas; None for a chain."""

    replicas: Sequence[Replica] = ()
    journal: Journal

    def __init__(self, version: int, given: ServedSettings, labels: ClassLabels) -> None:
        """`given` are its settings as they were given; `labels` those of its classes."""
        self.label = given.label
        self.version = version
        self.given = given
        self._labels = labels
        self.client: RequestClient | None = None
        """None until it takes requests."""

    @property
    def labels(self) -> ClassLabels:
        """The labels of its classes, by the outputs that have some."""
        return self._labels

    @property
    @abstractmethod
    def name(self) -> str:
        """The model or chain and its version, as texts name it."""

    @property
    def steps(self) -> tuple[tuple[str, int | None], ...]:
        """The models whose requests are its steps, each with the version that is meant, None for
        the current one.
        """
        return ()

    @abstractmethod
    def require_steps(self, find: Callable[[str, int | None], Served]) -> None:
        """Raise UsageError, naming the step, unless the models that are found fit as its steps."""

    @property
    @abstractmethod
    def updates(self) -> WeightUpdates:
        """Updates of its weights. Raises UsageError where it has none."""

    def decoder_status(self) -> DecoderStatus | None:
        """The sequences of a model that generates text; None for others."""
        return None

    @property
    @abstractmethod
    def waiting(self) -> int:
        """How many requests wait for a replica."""

    @abstractmethod
    def metrics(self) -> ModelMetrics:
        """Metrics of its requests."""

    @abstractmethod
    def drain(self, subject: str) -> None:
        """Take no more requests, as `subject` drains."""

    @abstractmethod
    def wait_idle(self, seconds: float | None) -> bool:
        """Wait until all requests have ended, at most `seconds`; whether they have."""

    @abstractmethod
    def give_up(self, text: str) -> None:
        """End all requests that are not answered with Closed."""

    @abstractmethod
    def release(self) -> None:
        """Free what it needed, whose ranks have ended."""


def wait_idle(models: Sequence[Served], timeout: float | None) -> bool:
    """Whether all requests of these models end within so many seconds.

    Chains come first, those loaded last before others: until then models get steps of them.
    """
    end = None if timeout is None else time.monotonic() + timeout
    idle = True
    for model in sorted(reversed(models), key=lambda one: not one.steps):
        left = None if end is None else max(0.0, end - time.monotonic())
        idle &= model.wait_idle(left)
    return idle
