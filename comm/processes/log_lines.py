"""Log lines of a rank: each begins with its level as sd-daemon(3) has it, and its starter logs it at that level."""

from __future__ import annotations

import logging

_LEVELS = {"<2>": logging.CRITICAL, "<3>": logging.ERROR, "<4>": logging.WARNING, "<6>": logging.INFO,
           "<7>": logging.DEBUG}
_PREFIXES = {level: prefix for prefix, level in _LEVELS.items()}


class _Levelled(logging.Formatter):
    """Each line of a record with the prefix of its level."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as lines; a level between two has the prefix of the lower one."""
        level = max((known for known in _PREFIXES if known <= record.levelno), default=logging.DEBUG)
        return "\n".join(_PREFIXES[level] + line for line in super().format(record).split("\n"))


def write_levels() -> None:
    """Have all loggers of this process write to standard error with levels; what they let through stays."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Levelled())
    logging.getLogger().addHandler(handler)


def read_level(line: str) -> tuple[int, str]:
    """The level of a line that a rank wrote, and the line without it; INFO where a print or a library wrote it."""
    level = _LEVELS.get(line[:3])
    return (logging.INFO, line) if level is None else (level, line[3:])
