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
        error.args = (f"{what} failed! Error is {error}",)
        raise
    except Exception as error:  # onnx and onnxruntime raise classes of their own
        raise RankmeshError(f"{what} failed! Error is {type(error).__name__}: {error}") from error
