"""How requests end: answered, failed or cancelled, and counted as such."""

from __future__ import annotations

import time
from typing import Any

from ..comm.errors import RankmeshError
from .counters import Counters
from .request import Request


class Replies:
    """Completes futures; to be called with no lock held, as callers' callbacks run here. Each request ends once."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters

    def give(self, request: Request, result: Any) -> None:
        """The result of a request, unless its caller has cancelled it."""
        if request.future.set_running_or_notify_cancel():
            self._counters.count("answered")
            self._counters.observe("total", time.monotonic() - request.submitted)
            request.future.set_result(result)
        else:
            self._counters.count("cancelled")

    def refuse(self, request: Request, error: RankmeshError) -> None:
        """The error that a request ends with, unless its caller has cancelled it."""
        if request.future.set_running_or_notify_cancel():
            self._counters.failed(error)
            request.future.set_exception(error)
        else:
            self._counters.count("cancelled")
