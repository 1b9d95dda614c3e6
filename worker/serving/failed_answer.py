"""Failed answers: tell an orchestrator of an order that went wrong."""

from __future__ import annotations

from ...comm.errors import error_parts
from ...comm.serving.orders import Answer

_LONGEST_TEXT = 20_000
"""Characters of a text or traceback: an answer has room for both."""


def failed_answer(error: Exception, ended: bool = False, entered: int = 0) -> Answer:
    """The answer to an order that failed; see Answer."""
    name, text, trace = short_parts(error)
    return Answer([], error=name, text=text, trace=trace, ended=ended, entered=entered)


def short_parts(error: Exception) -> tuple[str, str, str]:
    """The parts of an error, short enough for an answer."""
    name, text, trace = error_parts(error)
    return name, text[:_LONGEST_TEXT], trace[-_LONGEST_TEXT:]
