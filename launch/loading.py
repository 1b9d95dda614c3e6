"""What a supervisor shows while its ranks read, lower or prepare a model for long: a line for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType

from ..comm.loading_lines import EVERY, LoadingLines, wanted
from ..comm.progress import Stage


class Loading:
    """A supervisor's ticker, and a context manager that leaves nothing on the terminal.

    `stages` gives each rank's stage. Nothing shows where `wanted` says so, nor before a rank has been at one stage for
    two seconds.
    """

    def __init__(self, stages: Callable[[], Sequence[Stage]]) -> None:
        self._stages = stages
        self._lines = LoadingLines("rank {}".format, prints=True)
        self._over = not wanted()

    def __enter__(self) -> Loading:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._end()

    def patience(self) -> float | None:
        """See Ticker.patience."""
        return None if self._over else EVERY

    def tick(self) -> None:
        """See Ticker.tick."""
        if self._over:
            return
        stages = self._stages()
        if all(stage >= Stage.READY for stage in stages):
            self._end()
        else:
            self._lines.look(stages)

    def _end(self) -> None:
        self._over = True
        self._lines.end()
