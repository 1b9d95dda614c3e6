"""Identical lines of several ranks become one line (pure: time is passed in)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(slots=True)
class _Pending:
    stream: int
    line: str
    ranks: set[int]
    since: float


class Folder:
    """Holds each line back for up to `delay` seconds, to see whether other ranks write it too.

    Each rank's own lines keep their order: a line joins a pending one only if nothing that this
    rank wrote is pending behind it.
    """

    def __init__(self, ranks: int, delay: float = 0.1) -> None:
        self._ranks, self._delay = ranks, delay
        self._pending: deque[_Pending] = deque()

    def add(self, rank: int, stream: int, line: str, now: float) -> None:
        """Take a line that `rank` wrote to `stream` (1 or 2)."""
        for pending in reversed(self._pending):
            if rank in pending.ranks:
                break
            if (pending.stream, pending.line) == (stream, line) and not self._later(pending, rank):
                pending.ranks.add(rank)
                return
        self._pending.append(_Pending(stream, line, {rank}, now))

    def ready(self, now: float, everything: bool = False) -> list[tuple[int, str]]:
        """(stream, line with its prefix) of all that need not wait any longer."""
        found = []
        while self._pending and (everything or self._complete(self._pending[0], now)):
            pending = self._pending.popleft()
            found.append((pending.stream, f"{prefix(pending.ranks)} {pending.line}"))
        return found

    def patience(self, now: float) -> float | None:
        """Seconds until a line becomes ready by waiting, None while there is none."""
        return max(0.0, self._pending[0].since + self._delay - now) if self._pending else None

    def _complete(self, pending: _Pending, now: float) -> bool:
        return len(pending.ranks) == self._ranks or now - pending.since >= self._delay

    def _later(self, pending: _Pending, rank: int) -> bool:
        """Whether something of `rank` waits behind `pending`."""
        behind = False
        for other in self._pending:
            if behind and rank in other.ranks:
                return True
            behind = behind or other is pending
        return False


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
