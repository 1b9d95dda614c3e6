"""Output of a rank: reads its streams and logs them line by line."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from typing import IO

_LONGEST_LINE = 1 << 16
_CHUNK = 1 << 14
_PIPE = 1 << 17
Log = Callable[[int, int, str], None]
"""Takes a rank, the stream (1: standard output, 2: standard error) and a line."""


class Output:
    """The reading end of one stream of a rank, for an event loop; `kept` gets its lines, too."""

    def __init__(self, pipe: IO[bytes], rank: int, stream: int, log: Log, kept: deque[str]) -> None:
        self._pipe = pipe
        self._rank = rank
        self._stream = stream
        self._log = log
        self._kept = kept
        self._partial = b""
        os.set_blocking(pipe.fileno(), False)

    def fileno(self) -> int:
        """The descriptor."""
        return self._pipe.fileno()

    def read(self) -> bool:
        """Log lines that have come, 16 KiB at most as other ranks write too; False at the end."""
        return self._read() is not False

    def read_all(self) -> None:
        """Log all lines that have come, up to the 128 KiB of a pipe."""
        for _ in range(_PIPE // _CHUNK):
            if not self._read():
                return

    def close(self) -> None:
        """Log the lines that are left, and close the stream."""
        self.read_all()
        self._line(self._partial)
        self._pipe.close()

    def _read(self) -> bool | None:
        """True for something, None for nothing yet, False for the end of the stream."""
        try:
            data = os.read(self.fileno(), _CHUNK)
        except BlockingIOError:
            return None
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            self._line(line + b"\n")
        if not data or len(self._partial) > _LONGEST_LINE:
            self._line(self._partial)
            self._partial = b""
        return bool(data)

    def _line(self, raw: bytes) -> None:
        if raw:
            line = raw.decode(errors="replace").rstrip("\r\n")
            self._kept.append(line)
            self._log(self._rank, self._stream, line)
