"""Dispatcher of one model: carries out the decisions of its scheduler and completes futures."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ...comm.errors import Closed, RankmeshError
from ...comm.request_memory.owned_arena import OwnedArena
from ...comm.serving.caller_slots import CallerSlots
from ...comm.serving.orders import ModelReport
from ...comm.serving.ring import Ring
from ..config.published_model import published_form
from ..config.queue_policy import QueuePolicies
from ..config.settings import ModelSettings
from ..event_loop.loop import Alarm, EventLoopThread
from ..requests.journal import Journal
from ..requests.metrics import RequestCounters
from ..requests.outputs import OutputSpecs
from ..requests.queue import RequestQueue
from ..requests.replies import Refusal, Replies, copy_error, poisoned, wrap_error
from ..requests.request import Request
from .batch import Batch
from .inflight import InflightBatches
from .model_interface import ModelInterface
from .policies import policy_of
from .replica_table import ReplicaCondition
from .scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class ReplicaFailure:
    """A replica has failed with `error`: the requests it had, and those that its failed rank ran.

    With `state_lost` earlier requests had left something for later ones, which is gone.
    """

    replica: int
    error: RankmeshError
    undone: Sequence[Request]
    guilty: Sequence[Request]
    state_lost: bool


class Dispatcher:
    """Completes futures, counts and logs for one model; holds no lock while it does.

    The methods `replica_...` and `batch_...` are the replicas', in the thread of the event loop;
    a caller that waits for its own answer calls `batches_answered`, too.
    """

    def __init__(
        self,
        settings: ModelSettings,
        replicas: int,
        world_size: int,
        arena: OwnedArena,
        slots: CallerSlots,
        loop: EventLoopThread,
        version: int = 1,
    ) -> None:
        """`arena` is for tensors of requests, `slots` for callers that wait; `version` is the
        model's.
        """
        self.settings = settings
        self.journal = Journal(settings.label, version)
        self.counters = RequestCounters()
        self.replies = Replies(self.counters, slots, self.journal)
        self.scheduler = Scheduler(
            replicas,
            world_size,
            RequestQueue(settings.queue_limit, QueuePolicies(settings.queue)),
            policy_of(settings),
            self.replies,
            self.counters,
            Alarm(loop, self.expire),
            Alarm(loop, self.dispatch),
        )
        self._arena = arena
        self._interface: ModelInterface | None = None
        self._held_back: list[Callable[[], None]] = []

    def start(self, starts: Sequence[Callable[[], None]], one_first: bool) -> None:
        """Start the replicas; with `one_first` the others once the first is ready."""
        self._held_back = list(starts[1:]) if one_first else []
        for start in starts[:1] if one_first else starts:
            start()

    def wait_started(self) -> ModelInterface:
        """Wait until all replicas are ready; raises what went wrong."""
        self.scheduler.admission.wait_started()
        if self._interface is None:
            raise Closed("the orchestrator was closed while it started.")
        return self._interface

    def refuse(self, refusals: Iterable[Refusal]) -> None:
        """End requests that will not run."""
        for request, error in refusals:
            self.replies.refuse(request, error)

    def expire(self) -> None:
        """Refuse requests whose deadline has passed."""
        self.refuse(self.scheduler.expire())

    def dispatch(self) -> None:
        """Give waiting requests to free replicas."""
        self.refuse(self.scheduler.dispatch())

    def cancelled(self, number: int) -> None:
        """Forget a request that its caller has cancelled."""
        request = self.replies.withdraw(number)
        if request is not None:
            self.scheduler.cancel(request)

    def give_up(self, error: RankmeshError) -> None:
        """End all requests with `error`, and take no more."""
        self.scheduler.shut_down(isinstance(error, Closed))
        for request in self.replies.expected():
            self.replies.refuse(request, copy_error(error))

    @property
    def report(self) -> ModelReport | None:
        """The report of the model's first ranks, once there are any."""
        return None if self._interface is None else self._interface.report

    def replica_ready(
        self, replica: int, ring: Ring, reports: Sequence[ModelReport], ahead: bool
    ) -> None:
        """Give a replica requests, by `ring`; `ahead` allows an order before the last answer."""
        try:
            interface = self._interface or ModelInterface(
                reports[0],
                self._arena,
                self.settings.batching,
                published_form(self.settings),
            )
        except RankmeshError as error:
            self._stop(error)
            return
        self._interface = interface
        version = self.scheduler.weights.version  # it stays while a replica starts
        outputs = OutputSpecs(reports, self._arena)
        inflight = InflightBatches(
            replica, ring, outputs, interface, version, _stages(reports), ahead
        )
        self.refuse(self.scheduler.open(replica, inflight))
        held_back = self._held_back
        self._held_back = []
        for start in held_back:
            start()
        if self.scheduler.started:
            self.scheduler.admission.start()

    def replica_switched(self, replica: int) -> None:
        """The ranks of a replica compute with the weights that were ordered."""
        self.refuse(self.scheduler.switched(replica))

    def replica_failed(self, failure: ReplicaFailure) -> None:
        """Have the requests of a replica run again, or end them; it restarts, or has stopped."""
        scheduler = self.scheduler
        if not scheduler.admission.started or scheduler.stopped:
            self._stop(failure.error)
            return
        replica = failure.replica
        if scheduler.replicas[replica].condition is ReplicaCondition.STOPPED:
            text = "the other replicas go on: %s"
            self.journal.say(logging.ERROR, text, failure.error, replica=replica)
        refusals = poisoned(failure.guilty, failure.error)
        if failure.state_lost:  # run again, a request might be answered wrongly
            refusals += [Refusal(one, copy_error(failure.error)) for one in failure.undone]
        self.counters.count("restarts")
        refused = {request.id for request, _ in refusals}
        again, more = scheduler.requeue(failure.undone, refused)
        for request in again:
            self.journal.replayed(request, replica)
        self.refuse([*refusals, *more])

    def batches_answered(self, replica: int, batches: Sequence[Batch]) -> None:
        """Complete the futures of batches that all ranks have carried out. Callers get arrays in
        the arena itself; copies where they hold too many already.
        """
        now = time.monotonic()
        for batch in batches:
            self.counters.run.observe(now - batch.begun)
        refusals = self.scheduler.complete(replica)
        for batch in batches:
            self._complete(batch)
        if refusals:
            self.refuse(refusals)

    def _complete(self, batch: Batch) -> None:
        try:
            leased = not self._arena.crowded
            if not leased:
                self.counters.count("copied_results")
            results = batch.results(leased)
        except Exception as fault:  # of any class: every request has to end
            self._refuse_batch(batch, wrap_error(fault))
        else:
            for request, result in zip(batch.requests, results, strict=True):
                self.replies.give(request, result)

    def batch_refused(self, replica: int, batch: Batch, error: RankmeshError) -> None:
        """End the request of a batch that failed in the ranks. Several run again, each alone, so
        that only those fail that are the cause.
        """
        if len(batch.requests) > 1 and self.report is not None and not self.report.stateful:
            self.refuse(self.scheduler.separate(replica, batch))
            return
        refusals = self.scheduler.complete(replica)
        self._refuse_batch(batch, error)
        self.refuse(refusals)

    def _refuse_batch(self, batch: Batch, error: RankmeshError) -> None:
        for request in batch.requests:
            self.replies.refuse(request, copy_error(error))

    def _stop(self, error: RankmeshError) -> None:
        """End everything: no replica is left that could answer."""
        admission = self.scheduler.admission
        if admission.fail(error):
            self.journal.say(logging.ERROR, "the orchestrator has stopped: %s", error)
        self.give_up(error)
        admission.start()


def _stages(reports: Sequence[ModelReport]) -> int:
    """The stages of a pipeline: ranks of the last one give outputs, and all have as many ranks."""
    last = sum(bool(report.results) for report in reports)
    return 1 if reports[0].results else len(reports) // max(last, 1)
