"""Dispatcher of one decoder: between its replicas and the engines that give them steps."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from ...comm.errors import Closed, RankmeshError
from ...comm.serving.orders import ModelReport
from ...comm.serving.ring import Ring
from ..config.settings import ModelSettings
from ..event_loop.loop import EventLoopThread
from ..requests.journal import Journal
from ..requests.replies import copy_error
from ..scheduling.batch import StepOrder
from ..scheduling.dispatcher import ReplicaFailure
from ..scheduling.replica_table import ReplicaCondition
from .sequence_queue import SequenceQueue
from .step_table import StepTable


class DecoderDispatcher:
    """See ReplicaOwner. Its engines are told of all news by `wake`."""

    def __init__(
        self,
        settings: ModelSettings,
        replicas: int,
        world_size: int,
        loop: EventLoopThread,
        version: int,
    ) -> None:
        self.settings = settings
        self.journal = Journal(settings.label, version)
        self.scheduler = StepTable(replicas, world_size)
        self.queue = SequenceQueue(settings.queue_limit, loop)
        self.report: ModelReport | None = None
        self.refused: dict[int, RankmeshError] = {}
        """By replica: the error with which its ranks refused the step that they had."""

        self.wake: Callable[[int], None] = lambda replica: None
        """Wakes the engine of a replica."""

    def replica_ready(
        self, replica: int, ring: Ring, reports: Sequence[ModelReport], ahead: bool
    ) -> None:
        """See ReplicaOwner."""
        self.report = self.report or reports[0]
        self.scheduler.open(replica, ring, reports)
        if self.scheduler.started:
            self.scheduler.admission.start()
        self.wake(replica)

    def replica_switched(self, replica: int) -> None:
        """See ReplicaOwner: weights stay."""

    def replica_failed(self, failure: ReplicaFailure) -> None:
        """See ReplicaOwner. Its sequences go to another replica, or wait for it."""
        scheduler = self.scheduler
        self.queue.counters.count("restarts")
        if not scheduler.admission.started or scheduler.stopped:
            self._stop(failure.error)
        elif scheduler.replicas[failure.replica].condition is ReplicaCondition.STOPPED:
            text = "the other replicas go on: %s"
            self.journal.say(logging.ERROR, text, failure.error, replica=failure.replica)
        self.wake(failure.replica)

    def batches_answered(self, replica: int, batches: Sequence[StepOrder]) -> None:
        """See ReplicaOwner."""
        self.wake(replica)

    def batch_refused(self, replica: int, batch: StepOrder, error: RankmeshError) -> None:
        """See ReplicaOwner."""
        self.refused[replica] = error
        self.wake(replica)

    def give_up(self, error: RankmeshError) -> None:
        """End all sequences with `error`, and take no more."""
        self.scheduler.admission.close(isinstance(error, Closed))
        self.queue.fail_all(lambda: copy_error(error))

    def _stop(self, error: RankmeshError) -> None:
        """End everything: no replica is left that could go on."""
        admission = self.scheduler.admission
        if admission.fail(error):
            self.journal.say(logging.ERROR, "the orchestrator has stopped: %s", error)
        self.give_up(error)
        admission.start()
