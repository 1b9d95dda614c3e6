"""What an error of the API says first: which call failed."""

from __future__ import annotations

from types import TracebackType

from ..comm.errors import RankmeshError


class Failing:
    """Errors inside say what failed, and stay of their class; those of libraries become RankmeshErrors.

    A context manager for any number of threads, which costs next to nothing where nothing fails.
    """

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        """Nothing yet."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if isinstance(error, RankmeshError):
            error.args = (f"{self._what} failed! Error is {error}",)
        elif isinstance(error, Exception):  # onnx and onnxruntime raise classes of their own
            raise RankmeshError(f"{self._what} failed! Error is {type(error).__name__}: {error}") from error
