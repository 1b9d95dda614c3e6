"""Replica: ranks that run one copy of the model, through all its starts, failures and restarts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from ...comm.errors import CollectiveTimeout, ModelError, RankmeshError, UsageError
from ...comm.processes.event_loop import Timer
from ...comm.serving.orders import Answer
from ..event_loop.loop import EventLoopThread
from ..requests.request import Request
from ..scheduling.batch import Batch, InflightOrder, WeightSwitch
from ..scheduling.dispatcher import ReplicaFailure
from ..scheduling.inflight import MOST_AHEAD
from ..scheduling.replica_table import FinishedOrder, ReplicaCondition
from .incarnation import Incarnation, IncarnationListener
from .order_faults import Stalemate, fault_of, follows_another, in_step, running_order
from .outage import Outage, last_outages
from .replica_owner import ReplicaOwner, ReplicaStanding
from .replica_spec import ReplicaSpec
from .restart_budget import RestartBudget
from .supervised_ranks import NoPlace, RankLauncher
from .watchdog import Watchdog


class Replica(IncarnationListener):
    """Starts the ranks, passes their answers to the dispatcher, and restarts them when they fail.

    For the thread of the event loop. The scheduler decides what the ranks run.
    """

    def __init__(
        self,
        spec: ReplicaSpec,
        dispatcher: ReplicaOwner,
        launcher: RankLauncher,
        loop: EventLoopThread,
    ) -> None:
        """`launcher` starts the ranks. No process is started yet."""
        self.spec = spec
        self.incarnation: Incarnation | None = None
        """The processes; None before the first start, and where there are none."""

        self.starts = 0
        """How often the ranks were started."""

        self.failures = RestartBudget(spec.settings.restart_budget)
        self._dispatcher = dispatcher
        self._scheduler = dispatcher.scheduler
        self._launcher = launcher
        self._loop = loop
        self._watchdog: Watchdog | None = None
        self._stalemate: Stalemate | None = None
        self._restart: Timer | None = None
        self._stopped: list[Callable[[], None]] = []
        self._held: dict[Incarnation, list[InflightOrder]] = {}
        self.outages = last_outages()
        self.outage = Outage(spec.index, dispatcher.journal)

    def __repr__(self) -> str:
        return f"<Replica {self.spec.index}: {self.state.condition.value}>"

    @property
    def state(self) -> ReplicaStanding:
        """The scheduler's state of the replica."""
        return self._scheduler.replicas[self.spec.index]

    @property
    def restarts(self) -> int:
        """How often the ranks were started again, or are about to be."""
        ended = self.incarnation is None or self.incarnation.over
        if ended and self._is(ReplicaCondition.RESTARTING):
            return self.starts
        return max(0, self.starts - 1)

    def look(self) -> None:
        """Look for answers, although no rank has rung."""
        if self.incarnation is not None:
            self.incarnation.look()

    def start(self) -> None:
        """Start the ranks, for the first time or again."""
        self._restart = None
        if self._is(ReplicaCondition.STOPPED):
            return
        spec = self.spec
        settings = spec.settings
        self.starts += 1
        self.incarnation = None
        try:
            depth = len(spec.ranks) + MOST_AHEAD + 1
            launch = partial(self._launcher.launch, spec, depth, log=self._log)
            incarnation = Incarnation(self.starts, launch, self._loop, self)
        except NoPlace as fault:
            self._await_place(fault)
            return
        except OSError as error:
            text = f"the ranks of replica {spec.index} cannot be started: {error}"
            self.failed(None, RankmeshError(text), 0, False)
            return
        self.incarnation = incarnation
        self._watchdog = Watchdog(
            incarnation,
            settings.start_timeout,
            settings.hang_timeout,
            partial(self._scheduler.oldest, spec.index),
        )
        weights = self._scheduler.starting(spec.index)
        incarnation.start(spec.job, weights, spec.collective_timeout)

    def _await_place(self, fault: NoPlace) -> None:
        """Start again once there may be a place; a first start fails where none is to come."""
        if self._is(ReplicaCondition.STARTING) and not fault.coming:
            self.failed(None, UsageError(str(fault)), 0, False)
            return
        self.starts -= 1
        self.outage.log_wait(fault)
        self._launcher.await_place(self.start)

    def stop(self, stopped: Callable[[], None]) -> None:
        """End the ranks in order; `stopped` is called when they are gone."""
        self._scheduler.stop(self.spec.index)
        self._stopped.append(stopped)
        self._forget_stalemate()
        if self._watchdog is not None:
            self._watchdog.stop()
        if self.incarnation is None or self.incarnation.gone:
            self._tell_stopped()
        else:
            self.incarnation.stop()

    def ready(self, incarnation: Incarnation) -> None:
        """See IncarnationListener.ready."""
        reports = [incarnation.reports[rank] for rank in range(len(self.spec.ranks))]
        expected = self._dispatcher.report
        if expected is not None and (expected.inputs, expected.outputs) != (
            reports[0].inputs,
            reports[0].outputs,
        ):
            text = (
                f"{reports[0].path}: has other inputs or outputs than when the orchestrator "
                "started: start a new orchestrator for another model."
            )
            incarnation.fail(ModelError(text), 0, guilty=False)
            return
        stateful = any(report.stateful for report in reports)
        ahead = len(reports) == 1 and not stateful and self.spec.settings.batching is None
        self.outage.log_end(first=self.starts == 1)
        self._dispatcher.replica_ready(self.spec.index, incarnation.ring, reports, ahead)

    def answered(self, incarnation: Incarnation) -> None:
        """See IncarnationListener.answered."""
        ranks = len(self.spec.ranks)
        while incarnation is self.incarnation and not incarnation.over:
            found = self._scheduler.review(self.spec.index)
            if found is None:
                return
            if isinstance(found, FinishedOrder):
                self._forget_stalemate()
                self._tell_finished(found)
                continue
            order, answers = found
            fault = fault_of(answers, ranks)
            if fault is None:
                return
            if len(answers) < ranks:
                self._settle(incarnation, order, fault)
                return
            self._refuse(incarnation, order, fault, list(answers.values()))

    def failed(
        self, incarnation: Incarnation | None, error: RankmeshError, rank: int, guilty: bool
    ) -> None:
        """See IncarnationListener.failed."""
        if incarnation is not self.incarnation or self._is(ReplicaCondition.STOPPED):
            return
        self._forget_stalemate()
        if self._watchdog is not None:
            self._watchdog.stop()
        orders, completed, was = self._scheduler.withdraw(self.spec.index)
        if completed:
            self.failures.complete()
        if incarnation is not None and incarnation.host_lost:
            self.failures.note_lost(error)
        else:
            self.failures.note(error)
        if self.failures.exhausted:
            self._scheduler.stop(self.spec.index)
        if was is ReplicaCondition.READY:
            self.outage = Outage(self.spec.index, self._dispatcher.journal)
            self.outages.append(self.outage)
        self.outage.error = str(error)
        undone = _requests(orders)
        state_lost = incarnation is not None and any(
            one.stateful for one in incarnation.reports.values()
        )
        if not state_lost:
            self.outage.again += [request.id for request in undone]
        culprits: list[Request] = []
        if incarnation is not None:
            if guilty:
                culprits = _requests(running_order(incarnation.ring, orders, rank))
            self._held[incarnation] = orders  # until its processes are gone they may write there
        told = self._sentence(incarnation, error, first=was is ReplicaCondition.STARTING)
        self._dispatcher.replica_failed(
            ReplicaFailure(self.spec.index, told, undone, culprits, state_lost)
        )

    def ended(self, incarnation: Incarnation) -> None:
        """See IncarnationListener.ended."""
        if incarnation.gone:
            self._held.pop(incarnation, None)
        restarting = self._is(ReplicaCondition.RESTARTING)
        if incarnation is self.incarnation and restarting and self._restart is None:
            self._restart = self._loop.call_later(self.failures.rest, self.start)
        self._tell_stopped()

    def _is(self, condition: ReplicaCondition) -> bool:
        return self.state.condition is condition

    def _tell_finished(self, found: FinishedOrder) -> None:
        if isinstance(found.order, WeightSwitch):
            self._dispatcher.replica_switched(self.spec.index)
        else:
            self._dispatcher.batches_answered(self.spec.index, [found.order])

    def _sentence(
        self, incarnation: Incarnation | None, error: RankmeshError, first: bool
    ) -> RankmeshError:
        """Decide what becomes of the replica after `error`; the error to tell."""
        if self._is(ReplicaCondition.RESTARTING):
            self.outage.log_restart(self.failures.pause, error)
            if incarnation is None:  # no process has to end before
                self._restart = self._loop.call_later(self.failures.pause, self.start)
        elif not first:  # else the error is the constructor's
            return self.failures.too_many(self.spec.index, error)
        return error

    def _tell_stopped(self) -> None:
        if self._is(ReplicaCondition.STOPPED) and self.incarnation is not None:
            if self.incarnation.gone:
                self.incarnation = None
                self._watchdog = None
                self._scheduler.withdraw(self.spec.index)  # and with it the memory of its orders
        stopped, self._stopped = self._stopped, []
        for tell in stopped:
            tell()

    def _settle(self, incarnation: Incarnation, order: InflightOrder, fault: RankmeshError) -> None:
        """Find out whether ranks wait for ever, in a collective, for one that has failed."""
        if isinstance(fault, CollectiveTimeout) and self._watchdog is not None:
            self._watchdog.accuse(incarnation.culprit or 0)
        elif self._stalemate is None:
            reached = partial(self._break, incarnation, order, fault)
            self._stalemate = Stalemate(incarnation, order.number, reached)

    def _refuse(
        self,
        incarnation: Incarnation,
        order: InflightOrder,
        fault: RankmeshError,
        answers: list[Answer],
    ) -> None:
        """End a batch that all ranks have answered, some with an error."""
        self._forget_stalemate()
        if not in_step(answers) or isinstance(order, WeightSwitch):
            self._break(incarnation, order, fault)
            return
        self._scheduler.remove(self.spec.index, order)
        incarnation.ring.release(order.number)
        self._dispatcher.batch_refused(self.spec.index, order, fault)

    def _forget_stalemate(self) -> None:
        if self._stalemate is not None:
            self._stalemate.forget()
        self._stalemate = None

    def _break(self, incarnation: Incarnation, order: InflightOrder, fault: RankmeshError) -> None:
        """End ranks that are out of step, as `order` failed on some of them.

        The requests of the order get this error, which does not count as a failure of the ranks.
        They run again where it only follows the end of a rank, or of a network between ranks.
        """
        if follows_another(fault):
            incarnation.fail(fault, incarnation.culprit or 0, guilty=False)
            return
        self._scheduler.remove(self.spec.index, order)
        self.failures.forgive()
        text = f"a request has failed on some ranks and not on others: {fault}"
        incarnation.fail(RankmeshError(text), 0, guilty=False)
        self._held.setdefault(incarnation, []).append(order)
        if not isinstance(order, WeightSwitch):
            self._dispatcher.batch_refused(self.spec.index, order, fault)

    def _log(self, rank: int, stream: int, line: str) -> None:
        self._dispatcher.journal.rank_line(self.spec.index, rank, line)


def _requests(orders: Iterable[InflightOrder]) -> list[Request]:
    return [one for order in orders if isinstance(order, Batch) for one in order.requests]
