"""Whether requests for a model are taken: from when its ranks are ready, until it drains, is closed, or has failed."""

from __future__ import annotations

import threading

from ..comm.errors import Closed, Draining, RankmeshError
from .refusals import another


class Standing:
    """Starts, then takes requests, then does not; any thread may look."""

    def __init__(self) -> None:
        self.closing = False
        """Whether no more requests are taken."""

        self.closed = False
        """Whether that is because the orchestrator was closed."""

        self._failure: RankmeshError | None = None
        self._started = threading.Event()

    @property
    def started(self) -> bool:
        """Whether all groups have been ready, or the start has failed."""
        return self._started.is_set()

    def start(self) -> None:
        """That is so from now on."""
        self._started.set()

    def fail(self, error: RankmeshError) -> bool:
        """No rank is left that could answer; whether that is news, to who has not just been waiting for the start."""
        news = self.started and self._failure is None
        self._failure = self._failure or error
        return news

    def wait_started(self) -> None:
        """Wait until it has started; raises what went wrong."""
        self._started.wait()
        if self._failure is not None:
            raise another(self._failure)  # what we keep must not keep the caller's frames, and thus the orchestrator

    def require_open(self) -> None:
        """Raises why no requests are taken."""
        if self._failure is not None:
            raise another(self._failure)
        if self.closed:
            raise Closed("the orchestrator is closed: it takes no more requests.")
        if self.closing:
            raise Draining("the orchestrator drains: it takes no more requests, and answers what it has accepted. "
                           "Send this one to another.")
