"""Log records as JSON, one object a line."""

from __future__ import annotations

import json
import logging

_FIELDS = ("model", "replica", "rank", "request", "requests")
"""What records of rankmesh are about, where they are about one."""


class JsonLogFormatter(logging.Formatter):
    """For a handler of the program: time (seconds since 1970), level, logger and message of each record.

    Where a record has them, model, replica, rank, request, requests and exception too.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        found = {"time": round(record.created, 6), "level": record.levelname, "logger": record.name,
                 "message": record.getMessage()}
        found |= {name: getattr(record, name) for name in _FIELDS if hasattr(record, name)}
        if record.exc_info:
            found["exception"] = self.formatException(record.exc_info)
        return json.dumps(found, default=str)
