"""Identical lines of several ranks become one line (pure: time is passed in)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

from .notice import is_record

_WINDOW = 128
"""How many lines back an equal one is looked for."""


@dataclass(slots=True)
class _Pending:
    stream: int
    line: str
    ranks: set[int]
    since: float


class Folder:
    """Holds each line back for up to `delay` seconds, to see whether other ranks write it too.

    Each rank's own lines keep their order; those of different ranks change places where that brings equal ones
    together.
    """

    def __init__(self, ranks: int, delay: float = 0.1) -> None:
        self._ranks, self._delay = ranks, delay
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
        """(stream, line with its prefix) of all that need not wait any longer."""
        done = len(self._pending) if everything else sum(1 for _ in takewhile(
            lambda pending: self._complete(pending, now), self._pending))
        found = [(pending.stream, _marked(pending)) for pending in self._pending[:done]]
        del self._pending[:done]
        return found

    def patience(self, now: float) -> float | None:
        """Seconds until a line becomes ready by waiting, None while there is none."""
        return max(0.0, self._pending[0].since + self._delay - now) if self._pending else None

    def _complete(self, pending: _Pending, now: float) -> bool:
        return len(pending.ranks) == self._ranks or now >= pending.since + self._delay


def _marked(pending: _Pending) -> str:
    """The line with its prefix; a log record in JSON names its rank by itself."""
    return pending.line if is_record(pending.line) else f"{prefix(pending.ranks)} {pending.line}"


def prefix(ranks: set[int]) -> str:
    """"[rank 2]", "[ranks 0-3]" or "[ranks 0,2-3]"."""
    ordered = sorted(ranks)
    if len(ordered) == 1:
        return f"[rank {ordered[0]}]"
    runs: list[list[int]] = []
    for rank in ordered:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    return "[ranks " + ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs) + "]"
