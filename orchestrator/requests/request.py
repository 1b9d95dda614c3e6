"""Requests: hold the inputs of a caller, and what it gets for them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, TypeAlias

from numpy.typing import NDArray

from ...comm.serving.caller_slots import NO_SLOT
from .placed_outputs import PlacedOutputs
from .request_inputs import RequestInputs
from .step_times import StepTimes

Outputs: TypeAlias = dict[str, NDArray[Any]]
"""The outputs of a model, by name in its order."""

Result: TypeAlias = Outputs | list[Outputs]
"""The outputs of a request; of a request for every rank's, a list in rank order."""

AnyResult: TypeAlias = Result | PlacedOutputs
"""The same, for a request that is `placed`."""


class Request:
    """One request, for a thread that waits at a slot; times are seconds of `time.monotonic`.

    It needs no lock, as it ends once: see Replies. Values that most requests have are those of the
    class, so that a request costs little to make. RequestClient gives it the others.
    """

    id = 0
    inputs: RequestInputs
    submitted = 0.0
    priority = 0
    deadline: float | None = None
    """None: there is none."""

    attempts = 0
    """How often ranks were given it."""

    deaths = 0
    """How often a rank failed while it ran."""

    kind: Hashable = None
    """Equal for requests that may run together; None: it runs alone."""

    rows = 1
    """How many rows of a batch it takes."""

    slot = NO_SLOT
    """Where the thread that sends it waits for its answer."""

    every_rank = False
    """Whether its result is the outputs of every rank."""

    step = False
    """Whether it is a step of a chain's request, which was accepted before."""

    steps: tuple[StepTimes, ...] = ()
    """Those that have ended, of a request to a chain."""

    packed = False
    """Whether strings of its result stay in the form in which they lie in shared memory."""

    placed = False
    """Whether it takes PlacedOutputs for its result."""

    replica = -1
    """The replica that it was given to last, -1 before."""

    begun: float | None = None
    """When ranks were given it last, None before."""

    together = 0
    """How many requests they were given as one batch then, this one included."""

    wait_until: float | None = None
    """When it has waited long enough in the queue; None: it may wait on."""

    delayed = False
    """Whether it has, and waits behind the others of its priority."""

    done = False
    """Whether it has ended."""

    dropped = False
    """Whether its caller waits no more."""

    awake = False
    """Whether its thread looks for itself before it sleeps, and need not be woken."""

    _result: AnyResult | None = None
    _error: BaseException | None = None

    def late(self, now: float) -> bool:
        """Whether its deadline has passed."""
        return self.deadline is not None and self.deadline <= now

    def drop(self) -> bool:
        """Wait no more; whether it had not ended."""
        if self.done:
            return False
        self.dropped = self.done = True
        return True

    def keep(self) -> bool:
        """Whether its caller still waits, and does so to the end."""
        return not self.dropped

    def set_result(self, result: AnyResult) -> None:
        """End with a result."""
        self._result = result
        self.done = True

    def set_exception(self, error: BaseException) -> None:
        """End with an error."""
        self._error = error
        self.done = True

    def result(self) -> Result:
        """As `any_result`, of a request that is not `placed`."""
        result = self.any_result()
        assert not isinstance(result, PlacedOutputs)
        return result

    def any_result(self) -> AnyResult:
        """Return the result, or raise the error; once, and only when it is done."""
        result, error = self._result, self._error
        if result is not None:
            self._result = None
            return result
        assert error is not None
        self._error = None
        try:
            raise error
        finally:
            del error  # its traceback would keep the error itself, and the request's memory


class RequestFuture(Future[Result]):
    """Future of one request; it can be cancelled before the run and during it."""

    def __init__(self, number: int, cancelled: Callable[[int], None]) -> None:
        """`cancelled` is told the request's number, so that a future does not keep its memory."""
        super().__init__()
        self._request_number = number
        self._notify = cancelled

    def cancel(self) -> bool:
        """See Future.cancel."""
        if not super().cancel():
            return False
        self._notify(self._request_number)
        return True


class SubmittedRequest(Request):
    """One request whose caller has a future."""

    future: RequestFuture

    @property
    def dropped(self) -> bool:  # type: ignore[override]
        """See Request.dropped."""
        return self.future.cancelled()

    def drop(self) -> bool:
        """See Request.drop."""
        return self.future.cancel()

    def keep(self) -> bool:
        """See Request.keep."""
        return self.future.set_running_or_notify_cancel()

    def set_result(self, result: AnyResult) -> None:
        """See Request.set_result."""
        assert not isinstance(result, PlacedOutputs)
        self.future.set_result(result)

    def set_exception(self, error: BaseException) -> None:
        """See Request.set_exception."""
        self.future.set_exception(error)
