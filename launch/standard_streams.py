"""Standard streams of a command: leads closed ones to /dev/null, and tells of a full disk."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

from ..comm.errors import UsageError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_OUT, _ERRORS = 1, 2


def prepare_standard_streams() -> None:
    """Give this process three standard streams whose faults the command line can tell.

    Call this before other files are opened: one that took the number of a closed stream would get
    what is printed, and a child would not inherit it.
    """
    for fd in (0, _OUT, _ERRORS):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one
            os.set_inheritable(fd, True)
    sys.stdin = sys.stdin or open(0, closefd=False)
    sys.stdout = _text(_OUT, sys.stdout, "surrogateescape")  # file names as they are on the disk
    sys.stderr = _text(_ERRORS, sys.stderr, "backslashreplace")


def _text(fd: int, before: TextIO | None, errors: str) -> io.TextIOWrapper:
    lines = fd == _ERRORS or os.isatty(fd)
    through = isinstance(before, io.TextIOWrapper) and before.write_through
    buffer = io.BufferedWriter(_Output(fd, "wb", closefd=False))
    encoding = before.encoding if before else "utf-8"
    return io.TextIOWrapper(buffer, encoding, errors, line_buffering=lines, write_through=through)


class _Output(io.FileIO):
    """Standard output or error. After a fault it leads to /dev/null, so that the end of Python,
    which writes what is left, does not fail again.
    """

    def write(self, data: ReadableBuffer, /) -> int:
        """See io.RawIOBase. Raises UsageError where the disk is full, for standard output alone:
        of a fault of standard error nothing can be told.
        """
        try:
            return super().write(data)
        except OSError as error:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.fileno())
            os.close(null)
            if self.fileno() == _ERRORS:
                return memoryview(data).nbytes
            if isinstance(error, BrokenPipeError):
                raise
            raise UsageError(
                f"standard output cannot be written: {error.strerror}. Free space there, or send "
                "the output elsewhere."
            ) from None
