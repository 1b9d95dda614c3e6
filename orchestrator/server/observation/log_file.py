"""Log file: appends whole lines, and tells once that they are lost."""

from __future__ import annotations

import errno
import logging
import os
import sys

from ....comm.errors import UsageError

_LOG = logging.getLogger("rankmesh.server")
_CLOSED = -1


class LogFile:
    """A file, or standard error, which takes lines of several processes."""

    def __init__(self, path: str | None) -> None:
        """Without a `path`: standard error. Raises UsageError where the file cannot be written."""
        self._path = path
        self._fd = sys.stderr.fileno() if path is None else _opened(path)
        self._torn = False
        """Whether the file ends with a part of a line of ours."""

        self._lost = 0
        """Lines that were lost since it took one last."""

    def reopen(self) -> None:
        """Open the file again, as it may have been moved away."""
        if self._path is None:
            return
        try:
            opened = _opened(self._path)
        except UsageError as error:
            _LOG.error("the access log goes on in the file as it was: %s", error)
            return
        os.close(self._fd)
        self._fd, self._torn = opened, False

    def close(self) -> None:
        """Write no more."""
        if self._path is not None:
            os.close(self._fd)
            self._fd = _CLOSED

    def append(self, lines: bytes) -> None:
        """Append lines. Those that a full disk or a closed pipe does not take are lost."""
        begin = b"\n" if self._torn else b""
        data, reason = begin + lines, os.strerror(errno.ENOSPC)
        try:
            written = os.write(self._fd, data)
        except OSError as error:
            written, reason = 0, error.strerror or str(error)
        if written:
            self._torn = data[written - 1 : written] != b"\n"
        self._tell(data[max(written, len(begin)) :].count(b"\n"), reason)

    def _tell(self, lost: int, reason: str) -> None:
        """Tell of the first lines that are lost, and how many they were once a line is taken."""
        if self._path is not None and bool(lost) != bool(self._lost):
            if lost:
                _LOG.error(
                    "%s: the access log cannot be written: %s. Requests go on without a line until "
                    "it can.",
                    self._path,
                    reason,
                )
            else:
                _LOG.warning("%s: takes lines again; %d were lost.", self._path, self._lost)
        self._lost = self._lost + lost if lost else 0


def _opened(path: str) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o640)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}.") from None
