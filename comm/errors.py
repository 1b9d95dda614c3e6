"""Errors of Rankmesh: one tree, whose classes give the exit codes of the command line."""

from __future__ import annotations

from typing import NamedTuple

from .system_limits import limit_reached
from .text import shortened, visible

_LONGEST = 1 << 14


class RankmeshError(RuntimeError):
    """Base of every error that Rankmesh raises on purpose; its text is for the user.

    A longer one than 16,384 characters, such as one with the names of 500,000 tensors, is cut.
    """

    exit_code = 4

    def __str__(self) -> str:
        return visible(shortened(super().__str__(), _LONGEST))


class UsageError(RankmeshError):
    """The call contradicts itself or its environment (options, rank table, number of ranks)."""

    exit_code = 2


class ModelError(RankmeshError):
    """A model file is missing, unreadable, corrupt, or not what its neighbours are."""

    exit_code = 3


class UnsupportedPrimitives(ModelError):
    """The model uses primitives without a lowering; the text lists all of them."""


class ShardMismatch(ModelError):
    """The ranks' shards do not belong together; the text names files and ranks."""


class InputError(RankmeshError):
    """Inputs or expected outputs do not fit the model (name, shape, dtype, count)."""

    exit_code = 3


class RankFailed(RankmeshError):
    """A rank died, raised or never arrived; the text names it."""


class RankDied(RankFailed):
    """A rank's process ended while it was needed.

    The text names it, its signal or status, and its last lines.
    """


class RankHung(RankFailed):
    """A rank made no progress within its deadline; the text names it and where it stands."""


class CollectiveTimeout(RankFailed):
    """A deadline passed inside a collective; the text names the ranks that never came."""


class CollectiveMismatch(RankFailed):
    """Ranks of one group entered different collectives, or with different sizes."""


class CollectiveAborted(RankFailed):
    """Another rank failed while this one was inside a collective; the text names it."""


class Draining(RankmeshError):
    """The orchestrator takes no more requests.

    It answers those that it has accepted, and then ends.
    """


class Closed(RankmeshError):
    """The orchestrator is closed: it takes no requests, and answers none."""


class QueueFull(RankmeshError):
    """The queue has as many requests as it may have.

    `depth` is their number (0 where the error came from another process).
    """

    def __init__(self, text: str, depth: int = 0) -> None:
        super().__init__(text)
        self.depth = depth


class DeadlineExceeded(RankmeshError, TimeoutError):
    """A request had no answer by its deadline; the text says where it was then."""


class OutOfMemory(RankmeshError):
    """A request or a model finds no memory.

    It may be that of the host, of the device, or that set aside for tensors.
    """


class Poisoned(RankmeshError):
    """A request is refused, because ranks died twice while they ran it.

    The text names the request and the ranks.
    """


class RestartBudgetExhausted(RankmeshError):
    """The orchestrator has stopped.

    Its ranks failed again and again, and it answered no request in between.
    """


_BY_NAME: dict[str, type[RankmeshError]] = {
    c.__name__: c
    for c in (
        RankmeshError,
        UsageError,
        ModelError,
        UnsupportedPrimitives,
        ShardMismatch,
        InputError,
        RankFailed,
        RankDied,
        RankHung,
        CollectiveTimeout,
        CollectiveMismatch,
        CollectiveAborted,
        Draining,
        Closed,
        QueueFull,
        DeadlineExceeded,
        OutOfMemory,
        Poisoned,
        RestartBudgetExhausted,
    )
}


def error_named(name: str, text: str) -> RankmeshError:
    """Rebuild an error that travelled between processes as (class name, text)."""
    return _BY_NAME.get(name, RankmeshError)(text)


def out_of_memory(error: MemoryError) -> str:
    """The text of an OutOfMemory for Python's own error, which may have no text."""
    return f"the host has no memory left: {str(error) or 'all of it is in use'}."


class ErrorParts(NamedTuple):
    """An error as it travels between processes: the name of its class in this module and its text.

    `trace` is the traceback of a fault of ours or of a library, empty for any other error.
    """

    name: str
    text: str
    trace: str


def error_parts(error: Exception) -> ErrorParts:
    """The parts of an error that another process rebuilds with `error_named`; any class is fine."""
    if isinstance(error, RankmeshError):
        library = isinstance(error, RankFailed) and error.__cause__ is not None
        return ErrorParts(type(error).__name__, str(error), _trace(error) if library else "")
    if isinstance(error, MemoryError):
        return ErrorParts(OutOfMemory.__name__, out_of_memory(error), "")
    if isinstance(error, OSError) and (limit := limit_reached(error)):
        return ErrorParts(UsageError.__name__, limit, "")
    return ErrorParts(RankmeshError.__name__, f"{type(error).__name__}: {error}", _trace(error))


def _trace(error: Exception) -> str:
    import traceback  # few processes fail

    return "".join(traceback.format_exception(error))
