"""The one error tree: every class says which exit code the command line gives it."""

from __future__ import annotations

from .visible import visible


class RankmeshError(RuntimeError):
    """Base of every error that Rankmesh raises on purpose; its text is meant for the user."""

    exit_code = 4

    def __str__(self) -> str:
        return visible(super().__str__())


class UsageError(RankmeshError):
    """The call contradicts itself or its environment (options, rank table, number of ranks)."""

    exit_code = 2


class ModelError(RankmeshError):
    """A model file is missing, unreadable, corrupt, or not what its neighbours are."""

    exit_code = 3


class UnsupportedPrimitives(ModelError):
    """The model uses primitives that no lowering exists for; the text lists all of them."""


class ShardMismatch(ModelError):
    """The ranks' shards do not belong together; the text names files and ranks."""


class InputError(RankmeshError):
    """Inputs or expected outputs do not fit the model (name, shape, dtype, count)."""

    exit_code = 3


class RankFailed(RankmeshError):
    """A rank died, raised or never arrived; the text names it."""


class RankDied(RankFailed):
    """A rank's process ended while it was needed; the text names it, its signal or status, and its last lines."""


class RankHung(RankFailed):
    """A rank made no progress within its deadline; the text names it and where it stands."""


class CollectiveTimeout(RankFailed):
    """A deadline passed inside a collective; the text names who never entered it."""


class CollectiveMismatch(RankFailed):
    """Ranks of one group entered different collectives, or with different sizes."""


class CollectiveAborted(RankFailed):
    """Another rank failed while this one was inside a collective; the text names it."""


class Draining(RankmeshError):
    """No more requests are taken: the orchestrator answers those that it has accepted, and then ends."""


class Closed(RankmeshError):
    """The orchestrator has been closed: no requests are taken, and those that were not answered are not any more."""


class QueueFull(RankmeshError):
    """As many requests wait already as may; `depth` is how many (0 where the error came from another process)."""

    def __init__(self, text: str, depth: int = 0) -> None:
        super().__init__(text)
        self.depth = depth


class DeadlineExceeded(RankmeshError, TimeoutError):
    """A request had no answer by its deadline; the text says where it was then."""


class OutOfMemory(RankmeshError):
    """There is no memory for a request or a model: the host's, the device's, or that set aside for tensors."""


class Poisoned(RankmeshError):
    """A request is refused, because ranks died twice while they ran it; the text names request and ranks."""


class RestartBudgetExhausted(RankmeshError):
    """The orchestrator has stopped: its ranks failed again and again, and no request was answered between."""


_BY_NAME: dict[str, type[RankmeshError]] = {
    c.__name__: c
    for c in (
        RankmeshError, UsageError, ModelError, UnsupportedPrimitives, ShardMismatch,
        InputError, RankFailed, RankDied, RankHung, CollectiveTimeout, CollectiveMismatch, CollectiveAborted,
        Draining, Closed, QueueFull, DeadlineExceeded, OutOfMemory, Poisoned, RestartBudgetExhausted,
    )
}


def error_named(name: str, text: str) -> RankmeshError:
    """Rebuild an error that travelled between processes as (class name, text)."""
    return _BY_NAME.get(name, RankmeshError)(text)


def out_of_memory(error: MemoryError) -> str:
    """What an OutOfMemory says for Python's own error, which may have no text."""
    return f"the host has no memory left: {str(error) or 'all of it is in use'}."
