"""Requests: hold the inputs of a caller, and the future that gets the result."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeAlias

from numpy.typing import NDArray

from ...comm.serving.caller_slots import NO_SLOT
from .request_inputs import RequestInputs
from .step_times import StepTimes

Outputs: TypeAlias = dict[str, NDArray[Any]]
"""The outputs of a model, by name in its order."""

Result: TypeAlias = Outputs | list[Outputs]
"""The outputs of a request; of a request for every rank's, a list in rank order."""


class RequestFuture(Future[Result]):
    """Future of one request; it can be cancelled before the run and during it."""

    awake = False  # see CallOutcome

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


class CallOutcome:
    """Result of one request for a thread that waits at a slot: a future without a lock.

    It needs none, as a request ends once: see Replies.
    """

    __slots__ = ("_cancelled", "_done", "_error", "_notify", "_number", "_result", "awake")

    def __init__(self, number: int, cancelled: Callable[[int], None]) -> None:
        """See RequestFuture."""
        self._number = number
        self._notify = cancelled
        self._done = False
        self._cancelled = False
        self.awake = False
        """Whether its thread looks for itself before it sleeps, and need not be woken."""

        self._result: Result = {}
        self._error: BaseException | None = None

    def cancel(self) -> bool:
        """See Future.cancel."""
        if self._done:
            return False
        self._cancelled = True
        self._done = True
        self._notify(self._number)
        return True

    def cancelled(self) -> bool:
        """See Future.cancelled."""
        return self._cancelled

    def done(self) -> bool:
        """See Future.done."""
        return self._done

    def set_running_or_notify_cancel(self) -> bool:
        """See Future.set_running_or_notify_cancel."""
        return not self._cancelled

    def set_result(self, result: Result) -> None:
        """See Future.set_result."""
        self._result = result
        self._done = True

    def set_exception(self, error: BaseException) -> None:
        """See Future.set_exception."""
        self._error = error
        self._done = True

    def result(self) -> Result:
        """Return the result, or raise the error; once, and only when it is done."""
        error = self._error
        if error is None:
            return self._result
        self._error = None
        try:
            raise error
        finally:
            del error  # its traceback would keep the error itself, and the request's memory


class NotedOutcome(CallOutcome):
    """Result of one request for an event loop: it is handed to `note` when it is there, in any
    thread.
    """

    __slots__ = ("_note",)

    def __init__(
        self, note: Callable[[CallOutcome], None], number: int, cancelled: Callable[[int], None]
    ) -> None:
        super().__init__(number, cancelled)
        self.awake = True
        self._note = note

    def set_result(self, result: Result) -> None:
        """See Future.set_result."""
        self._result = result
        self._done = True
        self._tell()

    def set_exception(self, error: BaseException) -> None:
        """See Future.set_exception."""
        super().set_exception(error)
        self._tell()

    def _tell(self) -> None:
        note = self._note
        del self._note  # what is told may keep this: in a cycle the result would stay too long
        note(self)


@dataclass(slots=True, eq=False)
class Request:
    """One request; times are seconds of `time.monotonic`, a `deadline` of None is none."""

    id: int
    inputs: RequestInputs
    future: RequestFuture | CallOutcome
    submitted: float
    priority: int = 0
    deadline: float | None = None
    attempts: int = 0
    """How often ranks were given it."""

    deaths: int = 0
    """How often a rank failed while it ran."""

    kind: Hashable = None
    """Equal for requests that may run together; None: it runs alone."""

    rows: int = 1
    """How many rows of a batch it takes."""

    slot: int = NO_SLOT
    """Where the thread that sends it waits for its answer."""

    every_rank: bool = False
    """Whether its result is the outputs of every rank."""

    step: bool = False
    """Whether it is a step of a chain's request, which was accepted before."""

    steps: tuple[StepTimes, ...] = ()
    """Those that have ended, of a request to a chain."""

    packed: bool = False
    """Whether strings of its result stay in the form in which they lie in shared memory."""

    replica: int = -1
    """The replica that it was given to last, -1 before."""

    begun: float | None = None
    """When ranks were given it last, None before."""

    together: int = 0
    """How many requests they were given as one batch then, this one included."""

    wait_until: float | None = None
    """When it has waited long enough in the queue; None: it may wait on."""

    delayed: bool = False
    """Whether it has, and waits behind the others of its priority."""

    def late(self, now: float) -> bool:
        """Whether its deadline has passed."""
        return self.deadline is not None and self.deadline <= now
