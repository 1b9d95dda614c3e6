"""Loggers of Rankmesh: their filters, their handler, and records as JSON lines.

Importing `rankmesh.comm` adds filters and handler to the loggers, so before any module logs.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

from .errors import UsageError
from .text import visible

_NAMES = ("rankmesh", "rankmesh.orchestrator", "rankmesh.ranks")
LOG = logging.getLogger("rankmesh")
"""The logger of all messages for users."""
_VARIABLE = "RANKMESH_LOG"
_FIELDS = ("model", "replica", "rank", "request", "requests")
"""Attributes of records that JSON lines have too, where a record has them."""

_told_rank: int | None = None
_find_rank: Callable[[], int | None] | None = None


class JsonLogFormatter(logging.Formatter):
    """Formats a record as one line of JSON, for a handler of the program.

    Each line has the time (seconds since 1970), level, logger and message. It has model, replica,
    rank, request, requests and exception where the record has them.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        import json  # loads for 2 ms, and few programs want JSON

        found = {
            "time": round(record.created, 6),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        found |= {name: getattr(record, name) for name in _FIELDS if hasattr(record, name)}
        if record.exc_info:
            found["exception"] = self.formatException(record.exc_info)
        return json.dumps(found, default=str)


class DefaultOutput(logging.NullHandler):
    """The handler of a library: it writes only records for which the program has no handler.

    Then warnings go to standard error, as they do for loggers without any handler
    (`logging.lastResort`). With RANKMESH_LOG=json it writes every record that the level of its
    logger lets through, as JSON lines.
    """

    def handle(self, record: logging.LogRecord) -> bool:
        """See logging.Handler.handle."""
        if not self._program_handles(record.name):
            last = logging.lastResort
            if json_lines():
                write_json(record)
            elif last is not None and record.levelno >= last.level:
                last.handle(record)
        return True

    def _program_handles(self, name: str) -> bool:
        """Whether a handler of the program gets the records of the logger `name` too."""
        logger: logging.Logger | None = logging.getLogger(name)
        while logger is not None:
            if any(handler is not self for handler in logger.handlers):
                return True
            logger = logger.parent if logger.propagate else None
        return False


def json_lines() -> bool:
    """Whether RANKMESH_LOG asks for log lines as JSON."""
    return os.environ.get(_VARIABLE) == "json"


def check_log_setting() -> None:
    """Raise UsageError if RANKMESH_LOG has an unknown value, which elsewhere means text."""
    value = os.environ.get(_VARIABLE, "")
    if value not in ("", "text", "json"):
        raise UsageError(f"{_VARIABLE} is {value!r}, expected text (the default) or json.")


def write_json(record: logging.LogRecord) -> None:
    """Write a record to standard error, as a JSON line."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLogFormatter())
    handler.handle(record)


def log_as_rank(rank: int) -> None:
    """Name `rank` in the records of this process: its supervisor has said which rank it is."""
    global _told_rank
    _told_rank = rank


def find_rank_by(find_rank: Callable[[], int | None]) -> None:
    """Have `find_rank` tell the rank of this process for its records; None means no rank."""
    global _find_rank
    _find_rank = find_rank


def _write_out_controls(record: logging.LogRecord) -> bool:
    """Write out control characters, which could steer a terminal."""
    text = record.getMessage()
    shown = visible(text)
    if shown != text:
        record.msg = shown
        record.args = None
    return True


def _name_rank(record: logging.LogRecord) -> bool:
    """Give the record the rank of this process, if the process is a rank."""
    rank = _told_rank
    if rank is None and _find_rank is not None:
        rank = _find_rank()
    if rank is not None:
        record.rank = rank
    return True


for _name in _NAMES:
    logging.getLogger(_name).addFilter(_write_out_controls)
LOG.addFilter(_name_rank)
LOG.addHandler(DefaultOutput())


_LEVELS = {
    "<2>": logging.CRITICAL,
    "<3>": logging.ERROR,
    "<4>": logging.WARNING,
    "<6>": logging.INFO,
    "<7>": logging.DEBUG,
}
_PREFIXES = {level: prefix for prefix, level in _LEVELS.items()}


class _Levelled(logging.Formatter):
    """Formats each line of a record with the prefix of its level, as sd-daemon(3) has it."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as lines; a level between two has the prefix of the lower one."""
        level = max(
            (known for known in _PREFIXES if known <= record.levelno), default=logging.DEBUG
        )
        return "\n".join(_PREFIXES[level] + line for line in super().format(record).split("\n"))


def write_levels() -> None:
    """Have all loggers of this process write lines with levels to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Levelled())
    logging.getLogger().addHandler(handler)


def read_level(line: str) -> tuple[int, str]:
    """The level of a line that a rank wrote, and the line without it.

    INFO for the line of a print or of a library.
    """
    level = _LEVELS.get(line[:3])
    return (logging.INFO, line) if level is None else (level, line[3:])
