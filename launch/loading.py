"""What a terminal shows while ranks read, lower or prepare a model for long: a line for each."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from ..comm.progress import Stage

if TYPE_CHECKING:
    from rich.live import Live

_AFTER, _EVERY = 2.0, 0.25
_MOST_LINES = 8
_WORK = {Stage.READING: "reading and lowering the model", Stage.BUILDING: "preparing the model"}
_SHOWN = {**_WORK, Stage.CHECKING: "waiting for the other ranks"}


class Loading:
    """A supervisor's ticker, and a context manager that leaves nothing on the terminal.

    `stages` gives each rank's stage. Nothing shows on a standard error that is no terminal, nor before a rank has been
    at one stage for two seconds; rich is not even imported before that.
    """

    def __init__(self, stages: Callable[[], Sequence[Stage]]) -> None:
        self._stages = stages
        self._since: list[tuple[Stage, float]] = []
        self._live: Live | None = None
        self._over = not sys.stderr.isatty()

    def __enter__(self) -> Loading:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._end()

    def patience(self) -> float | None:
        """See Ticker.patience."""
        return None if self._over else _EVERY

    def tick(self) -> None:
        """See Ticker.tick."""
        if self._over:
            return
        now, stages = time.monotonic(), self._stages()
        before = self._since or [(stage, now) for stage in stages]
        self._since = [old if old[0] is stage else (stage, now) for old, stage in zip(before, stages, strict=True)]
        if all(stage >= Stage.READY for stage in stages):
            self._end()
        elif self._live or any(stage in _WORK and now - since >= _AFTER for stage, since in self._since):
            self._show(now)

    def _show(self, now: float) -> None:
        if self._live is None:
            self._live = _started()
        busy = [(rank, *entry) for rank, entry in enumerate(self._since) if entry[0] in _SHOWN]
        lines = [f"rank {rank}: {_SHOWN[stage]}, {now - since:.0f} s" for rank, stage, since in busy[:_MOST_LINES]]
        if len(busy) > _MOST_LINES:
            lines.append(f"and {len(busy) - _MOST_LINES} more ranks")
        self._live.update("\n".join(lines), refresh=True)

    def _end(self) -> None:
        self._over = True
        if self._live:
            self._live.stop()


def _started() -> Live:
    """Lines that vanish in the end; what others print meanwhile goes above them."""
    from rich.console import Console
    from rich.live import Live

    live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
    live.start()
    return live
