"""Access log: one line for each request, as text or JSON, without control characters."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache, partial

from msgspec import json

from ....comm.errors import UsageError
from ....comm.text import visible_line
from .log_file import LogFile
from .record import RequestRecord

_LONGEST = 500
_KEPT = 64
_ATOMIC = 4096
"""Bytes that a pipe takes as one: lines of other processes are not between them."""


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
        form = _json_begin if self._json else _text_begin
        self._begin = lru_cache(maxsize=_KEPT)(partial(_begin, form))
        self._file = LogFile(settings.file)

    @classmethod
    def wanted(cls, settings: AccessLogSettings) -> AccessLog | None:
        """A log where the settings ask for one."""
        return None if settings.form is LogForm.OFF else cls(settings)

    def reopen(self) -> None:
        """Open the file again, as it may have been moved away."""
        self._file.reopen()

    def close(self) -> None:
        """Write no more."""
        self._file.close()

    def write(self, records: Iterable[RequestRecord]) -> None:
        """Write the lines of requests that have ended, several at a time."""
        together = b""
        for record in records:
            line = self._line(record)
            if len(together) + len(line) > _ATOMIC:
                self._put(together)
                together = b""
            together += line
        self._put(together)

    def _line(self, record: RequestRecord) -> bytes:
        caller = record.client, record.token, record.method, record.path
        begin = self._begin(int(time.time()), *caller, record.model, record.version)
        trace_id = record.trace_id if record.trace is None else record.trace.id
        return begin + self._end(
            {
                "status": record.status,
                "bytes_in": record.bytes_in,
                "bytes_out": record.bytes_out,
                "seconds": round(record.ended - record.began, 6),
                "queue_seconds": _rounded(record.queue_seconds),
                "run_seconds": _rounded(record.run_seconds),
                "id": _plain(record.id),
                "trace_id": trace_id or None,
            }
        )

    def _end(self, found: Mapping[str, object]) -> bytes:
        return (json.encode(found)[1:] if self._json else _text(found)) + b"\n"

    def _put(self, lines: bytes) -> None:
        if lines:
            self._file.append(lines)


def _begin(
    form: Callable[[Mapping[str, object]], bytes],
    second: int,
    client: str,
    token: str,
    method: str,
    path: str,
    model: str,
    version: str,
) -> bytes:
    """The beginning of a line, which many lines of one second have in common."""
    return form(
        {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second)),
            "client": client,
            "token": _plain(token),
            "method": _plain(method),
            "path": _plain(path),
            "model": _plain(model),
            "version": version,
        }
    )


def _json_begin(found: Mapping[str, object]) -> bytes:
    return json.encode(found)[:-1] + b","


def _text_begin(found: Mapping[str, object]) -> bytes:
    return _text(found) + b" "


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
