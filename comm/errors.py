"""The one error tree: every class says which exit code the command line gives it."""

from __future__ import annotations


class RankmeshError(RuntimeError):
    """Base of every error that Rankmesh raises on purpose; its text is meant for the user."""

    exit_code = 4


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


class CollectiveTimeout(RankFailed):
    """A deadline passed inside a collective; the text names who never entered it."""


class CollectiveMismatch(RankFailed):
    """Ranks of one group entered different collectives, or with different sizes."""


class CollectiveAborted(RankFailed):
    """Another rank failed while this one was inside a collective; the text names it."""


_BY_NAME: dict[str, type[RankmeshError]] = {
    c.__name__: c
    for c in (
        RankmeshError, UsageError, ModelError, UnsupportedPrimitives, ShardMismatch,
        InputError, RankFailed, CollectiveTimeout, CollectiveMismatch, CollectiveAborted,
    )
}


def error_named(name: str, text: str) -> RankmeshError:
    """Rebuild an error that travelled between processes as (class name, text)."""
    return _BY_NAME.get(name, RankmeshError)(text)
