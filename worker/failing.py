"""What an error of the API says first: which call failed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..comm.errors import RankmeshError


@contextmanager
def failing(what: str) -> Iterator[None]:
    """Errors inside say what failed, and stay of their class; those of libraries become RankmeshErrors."""
    try:
        yield
    except RankmeshError as error:
        say(what, error)
        raise
    except Exception as error:
        raise as_ours(what, error) from error


def say(what: str, error: RankmeshError) -> None:
    """Have an error say which call has failed."""
    error.args = (f"{what} failed! Error is {error}",)


def as_ours(what: str, error: Exception) -> RankmeshError:
    """A library's error, as ours: onnx and onnxruntime raise classes of their own."""
    return RankmeshError(f"{what} failed! Error is {type(error).__name__}: {error}")
