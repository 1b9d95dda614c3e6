"""Journal: writes the log of one model, whose name is in texts and records."""

from __future__ import annotations

import logging
from contextlib import suppress

from ...comm.errors import Poisoned, RankmeshError
from ...comm.loggers import read_level
from .request import Request

_LOG = logging.getLogger("rankmesh.orchestrator")
_RANKS = logging.getLogger("rankmesh.ranks")
_CALLERS = 3
"""How far up the code is that a record is of: behind `_write` and what calls it."""


class Journal:
    """The log of one model; for any thread that holds no lock. A handler that raises does no
    harm."""

    def __init__(self, label: str, version: int = 1) -> None:
        self._label = label
        self._later = f"version {version}: " if version > 1 else ""

    def say(self, level: int, text: str, *arguments: object, **about: object) -> None:
        """Something about the model; `about` is replica, rank, request or requests."""
        self._write(_LOG, level, "model '%s': " + self._later + text, arguments, about)

    def replayed(self, request: Request, replica: int) -> None:
        """A request runs again, as the replica that had it has failed."""
        self.say(
            logging.INFO,
            "request %d runs again, as replica %d has failed",
            request.id,
            replica,
            request=request.id,
            replica=replica,
        )

    def refused(self, request: Request, error: RankmeshError) -> None:
        """A request has ended with an error."""
        about = (
            {"request": request.id}
            if request.replica < 0
            else {"request": request.id, "replica": request.replica}
        )
        self.say(
            logging.WARNING if isinstance(error, Poisoned) else logging.INFO,
            "request %d has ended with %s: %s",
            request.id,
            type(error).__name__,
            error,
            **about,
        )

    def rank_line(self, replica: int, rank: int, line: str) -> None:
        """A line that a rank wrote."""
        level, text = read_level(line)
        self._write(
            _RANKS,
            level,
            "[%s replica %d rank %d] %s",
            (replica, rank, text),
            {"replica": replica, "rank": rank},
        )

    def _write(
        self,
        logger: logging.Logger,
        level: int,
        text: str,
        arguments: tuple[object, ...],
        about: dict[str, object],
    ) -> None:
        if logger.isEnabledFor(level):
            # As text: a handler may keep its records, and an error's traceback keeps the memory of
            # its request.
            arguments = tuple(
                str(one) if isinstance(one, BaseException) else one for one in arguments
            )
            with suppress(Exception):  # of a handler: no request may be forgotten for that
                logger.log(
                    level,
                    text,
                    self._label,
                    *arguments,
                    extra={"model": self._label, **about},
                    stacklevel=_CALLERS,
                )
