"""What a rank writes, line by line as it comes."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from typing import IO

_LONGEST_LINE = 1 << 16
Log = Callable[[int, int, str], None]
"""Takes a rank, the stream (1 standard output, 2 standard error) and a line."""


class Output:
    """The reading end of one stream of a rank; for a selector. `kept` collects the last lines."""

    def __init__(self, pipe: IO[bytes], rank: int, stream: int, log: Log, kept: deque[str]) -> None:
        self._pipe, self._rank, self._stream, self._log, self._kept = pipe, rank, stream, log, kept
        self._partial = b""
        os.set_blocking(pipe.fileno(), False)

    def fileno(self) -> int:
        """The descriptor."""
        return self._pipe.fileno()

    def read(self) -> bool:
        """Log all lines that are there; False at the end of the stream."""
        while (data := self._pipe.read(1 << 16)) is not None:
            if not data:
                self._line(self._partial)
                self._partial = b""
                return False
            *lines, self._partial = (self._partial + data).split(b"\n")
            for line in lines:
                self._line(line)
            if len(self._partial) > _LONGEST_LINE:
                self._line(self._partial)
                self._partial = b""
        return True

    def close(self) -> None:
        """Read what is left, then close."""
        self.read()
        self._line(self._partial)
        self._pipe.close()

    def _line(self, raw: bytes) -> None:
        if raw:
            line = raw.decode(errors="replace").rstrip("\r")
            self._kept.append(line)
            self._log(self._rank, self._stream, line)
