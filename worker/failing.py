"""What an error of the API says first: which call failed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from ..comm.errors import RankmeshError


@contextmanager
def failing(what: str) -> Iterator[None]:
    """Errors inside say what failed, and stay of their class; those of libraries become RankmeshErrors."""
    try:
        yield
    except Exception as error:
        fail(what, error)


def fail(what: str, error: Exception) -> NoReturn:
    """Raise `error` as `failing` does, for calls that have no time for a context manager where nothing fails."""
    if isinstance(error, RankmeshError):
        error.args = (f"{what} failed! Error is {error}",)
        raise error
    # onnx and onnxruntime raise classes of their own
    raise RankmeshError(f"{what} failed! Error is {type(error).__name__}: {error}") from error
