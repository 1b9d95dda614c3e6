"""Rank printer: prints what ranks write, with identical lines of several ranks folded into one."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import IO

from ...comm.errors import UsageError
from ..options.notice import is_record

_WINDOW = 128
"""How many lines back an equal one is looked for."""


@dataclass(slots=True)
class _Pending:
    stream: int
    line: str
    ranks: set[int]
    since: float


class LineFolder:
    """Holds each line back for up to `delay` seconds, as other ranks may write it too.

    Each rank's own lines keep their order; those of different ranks change places where that brings
    equal ones together.
    """

    def __init__(self, ranks: int, delay: float = 0.1) -> None:
        self._ranks = ranks
        self._delay = delay
        self._pending: list[_Pending] = []

    def add(self, rank: int, stream: int, line: str, now: float) -> None:
        """Take a line that `rank` wrote to `stream` (1 or 2)."""
        first = max(0, len(self._pending) - _WINDOW)
        linked, before, found = {rank}, set(), None
        for index in range(len(self._pending) - 1, first - 1, -1):
            pending = self._pending[index]
            if not linked.isdisjoint(pending.ranks):  # must be printed before the new line
                linked |= pending.ranks
                before.add(index)
            elif (pending.stream, pending.line) == (stream, line):
                found = index
        if found is None:
            self._pending.append(_Pending(stream, line, {rank}, now))
            return
        self._pending[found].ranks.add(rank)
        moved = sorted(range(found, len(self._pending)), key=lambda index: index not in before)
        self._pending[found:] = [self._pending[index] for index in moved]

    def ready(self, now: float, everything: bool = False) -> list[tuple[int, str]]:
        """The lines that wait no longer, or `everything`, each with its stream."""
        complete = takewhile(lambda one: everything or self._complete(one, now), self._pending)
        done = len(list(complete))
        found = [(pending.stream, _marked(pending)) for pending in self._pending[:done]]
        del self._pending[:done]
        return found

    def next_timeout(self, now: float) -> float | None:
        """Seconds until a line becomes ready by waiting, None while there is none."""
        return max(0.0, self._pending[0].since + self._delay - now) if self._pending else None

    def _complete(self, pending: _Pending, now: float) -> bool:
        return len(pending.ranks) == self._ranks or now >= pending.since + self._delay


def _marked(pending: _Pending) -> str:
    """The line with its prefix; a log record in JSON names its rank by itself."""
    return pending.line if is_record(pending.line) else f"{prefix(pending.ranks)} {pending.line}"


def prefix(ranks: set[int]) -> str:
    """ "[rank 2]", "[ranks 0-3]" or "[ranks 0,2-3]"."""
    ordered = sorted(ranks)
    if len(ordered) == 1:
        return f"[rank {ordered[0]}]"
    runs: list[list[int]] = []
    for rank in ordered:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    texts = (f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
    return f"[ranks {','.join(texts)}]"


def open_logs(log_dir: str | None, ranks: Sequence[int]) -> dict[int, IO[str]]:
    """The log file of each rank, empty; none without a folder. Raises UsageError."""
    if log_dir is None:
        return {}
    try:
        os.makedirs(log_dir, exist_ok=True)
        return {
            r: open(os.path.join(log_dir, f"rank_{r}.log"), "w", buffering=1, encoding="utf-8")
            for r in ranks
        }
    except OSError as error:
        raise UsageError(f"--log-dir {log_dir}: {error.strerror}: {error.filename}.") from error


class RankPrinter:
    """Prints the lines of ranks, folded, and writes those of each rank to its log file."""

    def __init__(self, ranks: Sequence[int], log_dir: str | None) -> None:
        self._lines = LineFolder(len(ranks))
        self._log_dir = log_dir
        self._ranks = ranks
        self._files: dict[int, IO[str]] = {}

    def __enter__(self) -> RankPrinter:
        self._files = open_logs(self._log_dir, self._ranks)
        return self

    def __exit__(self, *_: object) -> None:
        self.tick(everything=True)
        for file in self._files.values():
            file.close()

    def log(self, rank: int, stream: int, line: str) -> None:
        """Take one line of a rank."""
        if self._files:
            self._files[rank].write(line + "\n")
        self._lines.add(rank, stream, line, time.monotonic())

    def next_timeout(self) -> float | None:
        """See Ticker.next_timeout."""
        return self._lines.next_timeout(time.monotonic())

    def tick(self, everything: bool = False) -> None:
        """See Ticker.tick; `everything` prints all that is left."""
        for stream, line in self._lines.ready(time.monotonic(), everything):
            print(line, file=sys.stdout if stream == 1 else sys.stderr, flush=True)
