"""Loggers of Rankmesh: what all records have in common, and where they go in a program that configures no logging."""

from __future__ import annotations

import logging
from contextlib import suppress

from .errors import UsageError
from .log_setting import json_lines
from .visible import visible

_NAMES = ("rankmesh", "rankmesh.orchestrator", "rankmesh.ranks")
_told_rank: int | None = None


class DefaultOutput(logging.NullHandler):
    """The handler of a library: it writes nothing where the program has a handler for the records.

    Where the program has none, no warning is lost: they go to standard error, as they do for loggers that have no
    handler at all (`logging.lastResort`). With RANKMESH_LOG=json all that the loggers' levels let through is written,
    as JSON lines.
    """

    def handle(self, record: logging.LogRecord) -> bool:
        """See logging.Handler.handle."""
        if not self._others(record.name):
            last = logging.lastResort
            if json_lines():
                write_json(record)
            elif last is not None and record.levelno >= last.level:
                last.handle(record)
        return True

    def _others(self, name: str) -> bool:
        """Whether a handler of the program gets the records of this logger too."""
        logger: logging.Logger | None = logging.getLogger(name)
        while logger is not None:
            if any(handler is not self for handler in logger.handlers):
                return True
            logger = logger.parent if logger.propagate else None
        return False


def write_json(record: logging.LogRecord) -> None:
    """Write a record to standard error, as a JSON line."""
    from .json_lines import JsonLogFormatter  # json takes a while, and few want it

    handler = logging.StreamHandler()
    handler.setFormatter(JsonLogFormatter())
    handler.handle(record)


def log_as_rank(rank: int) -> None:
    """Have the records of this process name its rank, where a supervisor and no launcher's variable says which."""
    global _told_rank
    _told_rank = rank


def _log_visibly(record: logging.LogRecord) -> bool:
    """Write out what would steer a terminal."""
    text = record.getMessage()
    shown = visible(text)
    if shown != text:
        record.msg, record.args = shown, None
    return True


def _name_rank(record: logging.LogRecord) -> bool:
    """Name the rank that this process is, if it is one."""
    rank = _own_rank() if _told_rank is None else _told_rank
    if rank is not None:
        record.rank = rank
    return True


def _own_rank() -> int | None:
    from .identity import detect  # takes a while, and most processes log nothing

    with suppress(UsageError):  # variables that contradict each other: who asks for the rank is told
        identity = detect()
        return identity.rank.rank if identity.marks else None
    return None


for _name in _NAMES:
    logging.getLogger(_name).addFilter(_log_visibly)
logging.getLogger(_NAMES[0]).addFilter(_name_rank)
logging.getLogger(_NAMES[0]).addHandler(DefaultOutput())
