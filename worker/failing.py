"""What an error of the API says first: which call failed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..comm.errors import RankmeshError
from ..comm.visible import visible


@contextmanager
def failing(what: str) -> Iterator[None]:
    """Errors inside say what failed, and stay of their class; those of libraries become RankmeshErrors."""
    try:
        yield
    except RankmeshError as error:
        say(what, error)
        raise
    except Exception as error:
        raise as_ours(what, error) from harmless(error)


def say(what: str, error: RankmeshError) -> None:
    """Have an error say which call has failed."""
    error.args = (f"{what} failed! Error is {error}",)
    if error.__cause__ and harmless(error.__cause__) is None:
        error.__cause__ = None


def as_ours(what: str, error: Exception) -> RankmeshError:
    """A library's error, as ours: onnx and onnxruntime raise classes of their own."""
    return RankmeshError(f"{what} failed! Error is {type(error).__name__}: {error}")


def harmless(cause: BaseException | None) -> BaseException | None:
    """The cause of an error; None where a traceback would print a name with it that steers the terminal."""
    behind = cause
    while behind is not None:
        if visible(str(behind)) != str(behind):
            return None
        behind = behind.__cause__ or behind.__context__
    return cause
