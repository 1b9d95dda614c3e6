"""Notices of commands: lines on standard error, as text or as log records in JSON."""

from __future__ import annotations

import logging
import sys
from typing import Any

from ...comm.loggers import json_lines, write_json
from ...comm.text import visible

_RECORD = '{"time": '
"""The first bytes of a log record in JSON; see comm/loggers.py."""


def notice(text: str, level: int = logging.INFO) -> None:
    """Print a line about the command itself."""
    if json_lines():
        _write("rankmesh", level, text)
    else:
        print(f"rankmesh: {text}", file=sys.stderr)


def notice_line(rank: int, line: str) -> None:
    """Print a line of a rank; a log record in JSON stays as it is, as it names the rank."""
    if is_record(line):
        print(visible(line), file=sys.stderr)
    elif json_lines():
        _write("rankmesh.ranks", logging.INFO, line, rank=rank)
    else:
        print(f"[rank {rank}] {visible(line)}", file=sys.stderr)


def is_record(line: str) -> bool:
    """Whether a line is a log record of Rankmesh in JSON."""
    return line.startswith(_RECORD) and '"logger": "rankmesh' in line


def _write(logger: str, level: int, text: str, **about: Any) -> None:
    record = logging.LogRecord(logger, level, "", 0, visible(text), None, None)
    record.__dict__.update(about)
    write_json(record)
