"""Chain run: one request on its way through the steps of a chain."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from ...comm.arrays import Array
from ...comm.errors import Closed, Draining, QueueFull, RankmeshError
from ..requests.request import AnyResult, Outputs, Request
from ..requests.step_times import StepTimes
from ..scheduling.request_client import RequestClient
from .chain_plan import ChainPlan, PlannedStep
from .step_shapes import ended, given, taken


class StepClients(Protocol):
    """The models of an orchestrator, as far as steps need them."""

    def client(self, model: str | None, version: int | None = None) -> RequestClient:
        """The client of a model, None: of its current version. Raises UsageError."""


class StepRequest(Request):
    """The request of a step: `answered` or `refused` is told, in any thread, and runs the next."""

    awake = True

    def __init__(
        self, answered: Callable[[AnyResult], None], refused: Callable[[BaseException], None]
    ) -> None:
        self._answered, self._refused = answered, refused

    def set_result(self, result: AnyResult) -> None:
        """See Request.set_result."""
        self.done = True
        self._answered(result)

    def set_exception(self, error: BaseException) -> None:
        """See Request.set_exception."""
        self.done = True
        self._refused(error)


class ChainRun:
    """Submits each step as soon as its inputs are there. Safe for any thread.

    The tensors stay where ranks wrote them, each until the last step that takes it has ended.
    """

    def __init__(
        self,
        plan: ChainPlan,
        clients: StepClients,
        request: Request,
        ended: Callable[[Request, Outputs | RankmeshError], None],
    ) -> None:
        """`request` has the inputs of the chain; `ended` is told its outputs, or the error of the
        first step that fails, once.
        """
        self._plan = plan
        self._clients = clients
        self._request = request
        self._ended = ended
        self._lock = threading.Lock()
        self._over = False
        self._tensors: dict[str, Array] = {}
        self._uses = dict(plan.uses)
        self._missing = [len(set(step.inputs.values())) for step in plan.steps]
        self._left = len(plan.steps)
        self._under_way: dict[int, tuple[RequestClient, Request]] = {}
        self._made: dict[int, tuple[RequestClient, Request]] = {}
        """The requests of steps that have not ended, by the positions of the steps; each is there
        before it is queued.
        """

    def start(self) -> None:
        """Submit the steps that need only the inputs of the chain."""
        names = [spec.name for spec in self._plan.inputs]
        tensors = dict(zip(names, self._request.inputs.leased(), strict=True))
        with self._lock:
            due = self._add(tensors)
            due += [at for at, step in enumerate(self._plan.steps) if not step.inputs]
        self._submit_all(due)

    def collect(self) -> None:
        """Complete the steps that the ranks have answered; the slot was notified."""
        with self._lock:
            under_way = [*self._under_way.values()]
        for client, request in under_way:
            client.collect(request)

    def cancel(self) -> None:
        """Drop the run, if it is not over; no outcome is told."""
        with self._lock:
            under_way = self._end()
        for client, request in under_way:
            client.abandon(request)

    def _end(self) -> list[tuple[RequestClient, Request]]:
        """Submit nothing more; the steps that are under way. For the owner of the lock."""
        self._over = True
        under_way = [*self._under_way.values()]
        self._under_way.clear()
        self._tensors.clear()
        self._made.clear()
        return under_way

    def _add(self, tensors: Mapping[str, Array]) -> list[int]:
        """Keep tensors; the steps that have all of theirs by now. For the owner of the lock."""
        due = []
        for name, array in tensors.items():
            self._tensors[name] = array
            for at in self._plan.takers[name]:
                self._missing[at] -= 1
                if not self._missing[at]:
                    due.append(at)
        return due

    def _submit_all(self, due: Sequence[int]) -> None:
        for at in due:
            try:
                self._submit(at)
            except RankmeshError as error:
                self._fail(at, error)
            except Exception as error:  # of any class: the request has to end
                self._fail(at, RankmeshError(f"{type(error).__name__}: {error}"))

    def _submit(self, at: int) -> None:
        """Queue a step; again where another version of its model has taken its place meanwhile."""
        step = self._plan.steps[at]
        with self._lock:
            if self._over:
                return
            tensors = {name: self._tensors[tensor] for name, tensor in step.inputs.items()}
        while True:
            client = self._clients.client(step.model, step.version)
            request = StepRequest(partial(self._answered, at), partial(self._refused, at))
            self._made[at] = client, request
            try:
                inputs = taken(client.interface, tensors)
                client.submit_step(inputs, self._request, request)
                break
            except (Draining, Closed):
                if not self._replaced(step, client):
                    raise
        with self._lock:
            if request.done:
                return
            if not self._over:
                self._under_way[at] = client, request
                return
        client.abandon(request)

    def _replaced(self, step: PlannedStep, client: RequestClient) -> bool:
        """Whether another version of a step's model has taken the place of this one."""
        return step.version is None and self._clients.client(step.model, step.version) is not client

    def _answered(self, at: int, result: AnyResult) -> None:
        """Take the outputs of a step, and submit those that have waited for them."""
        assert isinstance(result, dict)
        made = self._made.get(at)
        if made is None:  # the run is over
            return
        step = self._plan.steps[at]
        try:
            tensors = _tensors(step, made[0], result)
        except RankmeshError as error:
            self._refused(at, error)
            return
        self._note_times(at)
        found: Outputs | None = None
        with self._lock:
            self._under_way.pop(at, None)
            if self._over:
                return
            due = self._add(tensors)
            self._release(step)
            self._left -= 1
            if not self._left:
                found = self._outputs()
                self._end()
        if found is None:
            self._submit_all(due)
        else:
            self._ended(self._request, found)

    def _outputs(self) -> Outputs:
        """The outputs of the chain, once they are there. For the owner of the lock."""
        plan, tensors = self._plan, self._tensors
        return {one.name: ended(one, tensors[one.name], plan.rowed) for one in plan.outputs}

    def _release(self, step: PlannedStep) -> None:
        """Let go of the tensors that no other step takes."""
        for tensor in set(step.inputs.values()):
            self._uses[tensor] -= 1
            if not self._uses[tensor]:
                del self._tensors[tensor]

    def _refused(self, at: int, error: BaseException) -> None:
        """A step has ended with an error; one whose model was replaced meanwhile runs again."""
        with self._lock:
            self._under_way.pop(at, None)
            made = self._made.get(at)
        if isinstance(error, (Draining, Closed)) and made is not None:
            if self._replaced(self._plan.steps[at], made[0]):
                self._submit_all([at])
                return
        self._note_times(at)
        assert isinstance(error, RankmeshError)
        self._fail(at, error)

    def _note_times(self, at: int) -> None:
        """A step has ended: its times are those of its request, which is kept no longer."""
        made = self._made.pop(at, None)
        if made is None:
            return
        _, request = made
        times = StepTimes(
            self._plan.steps[at].model,
            request.submitted,
            request.begun,
            time.monotonic(),
            request.replica,
            request.together,
            request.attempts,
            request.steps,
        )
        with self._lock:
            self._request.steps = (*self._request.steps, times)

    def _fail(self, at: int, error: RankmeshError) -> None:
        """End the run with the error of a step, if it is the first."""
        with self._lock:
            if self._over:
                return
            under_way = self._end()
        for client, request in under_way:
            client.abandon(request)
        self._ended(self._request, _of_step(self._plan.steps[at], error))


def _tensors(step: PlannedStep, client: RequestClient, result: Outputs) -> dict[str, Array]:
    """The tensors of the chain that a step gives."""
    if not step.outputs.keys() <= result.keys():
        raise _other_outputs(step, result)
    outputs = given(client.interface, result)
    return {tensor: outputs[name] for name, tensor in step.outputs.items()}


def _other_outputs(step: PlannedStep, result: Outputs) -> Draining:
    """The error where a step's model is another version already, and its chain follows soon: it is
    that of versions that end, so that the request runs again on the chain's next one.
    """
    return Draining(
        f"the model has another version by now, which gives {[*result]}, and this step takes "
        f"{[*step.outputs]} of it: send the request again."
    )


def _of_step(step: PlannedStep, error: RankmeshError) -> RankmeshError:
    """An error that names the step in which it came up."""
    found = type(error)(f"{step.name}: {error}")
    found.__cause__ = error.__cause__
    if isinstance(found, QueueFull) and isinstance(error, QueueFull):
        found.depth = error.depth
    return found
