"""Client of a chain: gives the steps of its requests to the models, and ends the requests."""

from __future__ import annotations

import time

from ...comm.arrays import Array
from ...comm.errors import QueueFull, RankmeshError, UsageError
from ...comm.request_memory.owned_arena import OwnedArena
from ...comm.serving.caller_slots import CallerSlots
from ...comm.serving.orders import ModelReport
from ..config.chain_settings import ChainSettings
from ..config.published_model import published_form
from ..event_loop.loop import EventLoopThread
from ..requests.journal import Journal
from ..requests.metrics import RequestCounters
from ..requests.replies import Replies
from ..requests.request import Outputs, Request, Result
from ..requests.string_outputs import StringOutputs
from ..scheduling.admission import Admission
from ..scheduling.model_interface import ModelInterface
from ..scheduling.request_client import RequestClient
from .chain_plan import ChainPlan
from .chain_run import ChainRun, StepClients


class ChainClient(RequestClient):
    """Requests to one chain, from any thread."""

    def __init__(
        self,
        settings: ChainSettings,
        plan: ChainPlan,
        models: StepClients,
        journal: Journal,
        arena: OwnedArena,
        slots: CallerSlots,
        loop: EventLoopThread,
    ) -> None:
        """`models` answer the steps; see RequestClient for the rest."""
        self.admission = Admission()
        self.admission.start()
        self.counters = RequestCounters()
        self.replies = Replies(self.counters, slots, journal)
        report = ModelReport(f"chain '{settings.name}'", plan.inputs, plan.outputs, ())
        super().__init__(
            ModelInterface(report, arena, None, published_form(settings)),
            settings.timeout,
            self.admission,
            self.counters,
            self._cancel,
            slots,
            loop,
        )
        self._settings = settings
        self._plan = plan
        self._strings = StringOutputs(plan.outputs)
        self._models = models
        self._arena = arena
        self._runs: dict[int, ChainRun] = {}

    def collect_at(self, slot: int) -> None:
        """See RequestClient.collect_at: the clients of the steps complete them."""

    def collect(self, request: Request) -> None:
        """See RequestClient.collect."""
        run = self._runs.get(request.id)
        if run is not None:
            run.collect()

    def give_up(self, error: RankmeshError) -> None:
        """End all requests with an error."""
        for request in self.replies.expected():
            self._forget(request.id)
            self.replies.refuse(request, error)

    def _put(self, request: Request) -> None:
        try:
            self._require_room(request)
        except RankmeshError as error:
            self.counters.refused(error)
            raise
        request.begun, request.together = time.monotonic(), 1
        run = ChainRun(self._plan, self._models, request, self._ended)
        self._runs[request.id] = run
        self.replies.expect(request)
        run.start()

    def _require_room(self, request: Request) -> None:
        """Raise Draining, Closed, QueueFull, UsageError where a request is not taken."""
        self.admission.require_open(request.step)
        name = self._settings.name
        if request.every_rank:
            raise UsageError(
                f"chain '{name}': results='all' asks for the outputs of each rank, and a chain has "
                "no ranks: leave it out, or ask the model of a step."
            )
        depth = len(self.replies)
        if depth >= self._settings.queue_limit:
            raise QueueFull(
                f"chain '{name}': {depth} requests are under way, and its queue_limit is "
                f"{self._settings.queue_limit}: send this one again later.",
                depth,
            )

    def _ended(self, request: Request, outcome: Outputs | RankmeshError) -> None:
        """End a request with the outputs or the error of its run."""
        self._runs.pop(request.id, None)
        if isinstance(outcome, RankmeshError):
            self.replies.refuse(request, outcome)
            return
        self.counters.run.observe(time.monotonic() - request.submitted)
        try:
            result = outcome if request.step else self._leased(outcome)
            result = result if request.packed else self._strings.unpacked(result)
        except RankmeshError as error:
            self.replies.refuse(request, error)
        else:
            self.replies.give(request, result)

    def _leased(self, outputs: Outputs) -> Result:
        """Outputs in the arena, or copies where callers hold too many already."""
        if not self._arena.crowded:
            return outputs
        self.counters.count("copied_results")
        copies: dict[str, Array] = {name: array.copy() for name, array in outputs.items()}
        return copies

    def _cancel(self, number: int) -> None:
        """Forget a request that its caller has cancelled, and its steps."""
        if self.replies.withdraw(number) is not None:
            self._forget(number)

    def _forget(self, number: int) -> None:
        run = self._runs.pop(number, None)
        if run is not None:
            run.cancel()

    def _after_abandon(self, request: Request) -> None:
        """See RequestClient: the steps were abandoned when the request was cancelled."""
