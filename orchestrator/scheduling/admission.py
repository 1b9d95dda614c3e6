"""Admission of requests to one model: from its start until it drains, is closed, or has failed."""

from __future__ import annotations

import threading

from ...comm.errors import Closed, Draining, RankmeshError
from ..requests.replies import copy_error


class Admission:
    """Whether a model takes requests. Any thread may look: the reason of a change is set before
    it.
    """

    def __init__(self) -> None:
        self.closing = False
        """Whether the model drains or is closed."""

        self._closed = False
        self._subject = "the orchestrator"
        self._failure: RankmeshError | None = None
        self._started = threading.Event()

    @property
    def started(self) -> bool:
        """Whether all replicas have been ready, or the start has failed."""
        return self._started.is_set()

    def start(self) -> None:
        """Release the threads in `wait_started`."""
        self._started.set()

    def fail(self, error: RankmeshError) -> bool:
        """Note that no replica is left; whether this is the first failure after the start."""
        news = self.started and self._failure is None
        self._failure = self._failure or error
        return news

    def drain(self, subject: str) -> None:
        """Take no more requests; errors name `subject`, which drains or is closed."""
        self._subject = subject
        self.closing = True

    def close(self, closed: bool) -> None:
        """Take no more requests; `closed`: as the orchestrator is, or the model was unloaded."""
        self._closed = closed
        self.closing = True

    def wait_started(self) -> None:
        """Wait until the model has started; raises the error of a start that has failed."""
        self._started.wait()
        self._require_sound()

    def require_open(self, step: bool = False) -> None:
        """Raise Draining, Closed, or the model's failure where no requests are taken.

        A `step` of a request that was accepted before is taken while the model drains.
        """
        if self._failure is None and not self.closing:
            return
        self._require_sound()
        if self._closed:
            raise Closed(f"{self._subject} is closed: it takes no more requests.")
        if self.closing and not step:
            raise Draining(
                f"{self._subject} drains: it takes no more requests, and answers what it has "
                "accepted. Send this one to another."
            )

    def _require_sound(self) -> None:
        if self._failure is not None:
            raise copy_error(self._failure)  # else it would keep the frames of its callers
