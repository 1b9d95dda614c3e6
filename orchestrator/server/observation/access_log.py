"""Access log: one line for each request, as text or JSON, without control characters."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from msgspec import json

from ....comm.errors import UsageError
from ....comm.text import visible_line
from .record import RequestRecord

_LOG = logging.getLogger("rankmesh.server")
_LONGEST = 500
_CLOSED = -1


class LogForm(Enum):
    """Forms of the access log."""

    OFF = "off"
    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class AccessLogSettings:
    """Settings of the access log; without a `file` it goes to standard error."""

    form: LogForm = LogForm.OFF
    file: str | None = None

    @classmethod
    def named(cls, form: str, file: str | None) -> AccessLogSettings:
        """The settings of two options. Raises UsageError."""
        if form not in [one.value for one in LogForm]:
            raise UsageError(f"got the access log {form!r:.40}, expected text, json or off.")
        return cls(LogForm(form), file)


class AccessLog:
    """Writes the lines."""

    def __init__(self, settings: AccessLogSettings) -> None:
        """Raises UsageError where the file cannot be written."""
        self._json = settings.form is LogForm.JSON
        self._file = settings.file
        self._fd = sys.stderr.fileno() if self._file is None else _opened(self._file)

    @classmethod
    def wanted(cls, settings: AccessLogSettings) -> AccessLog | None:
        """A log where the settings ask for one."""
        return None if settings.form is LogForm.OFF else cls(settings)

    def reopen(self) -> None:
        """Open the file again, as it may have been moved away."""
        if self._file is None:
            return
        try:
            opened = _opened(self._file)
        except UsageError as error:
            _LOG.error("the access log goes on in the file as it was: %s", error)
            return
        os.close(self._fd)
        self._fd = opened

    def close(self) -> None:
        """Write no more."""
        if self._file is not None:
            os.close(self._fd)
            self._fd = _CLOSED

    def write(self, record: RequestRecord) -> None:
        """Write the line of a request that has ended."""
        found = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "client": record.client,
            "token": _plain(record.token),
            "method": _plain(record.method),
            "path": _plain(record.path),
            "model": _plain(record.model),
            "version": record.version,
            "status": record.status,
            "bytes_in": record.bytes_in,
            "bytes_out": record.bytes_out,
            "seconds": round(time.monotonic() - record.began, 6),
            "queue_seconds": _rounded(record.queue_seconds),
            "run_seconds": _rounded(record.run_seconds),
            "id": _plain(record.id),
            "trace_id": record.trace_id or None,
        }
        line = json.encode(found) if self._json else _text(found)
        try:
            os.write(self._fd, line + b"\n")
        except OSError:  # a full disk or a closed pipe ends no request
            return


def _text(found: Mapping[str, object]) -> bytes:
    """The values one after the other; what comes from a client is in quotes."""
    parts = []
    for name, value in found.items():
        quoted = name in ("path", "id", "model", "token")
        shown = "-" if value is None or value == "" else value
        parts.append(json.encode(value).decode() if quoted else str(shown))
    return " ".join(parts).encode()


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)


def _plain(text: str) -> str:
    return visible_line(text[:_LONGEST])


def _opened(path: str) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o640)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}.") from None
