"""Loading lines: progress on a terminal for ranks or models that load for long."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..job_memory.progress import Stage
from ..text import visible_line

if TYPE_CHECKING:
    from rich.live import Live

EVERY = 0.25
"""Seconds from one look at the stages to the next."""

_AFTER = 2.0
_MOST_LINES = 8
_WORK = {Stage.READING: "reading and lowering the model", Stage.BUILDING: "preparing the model"}
_SHOWN = {**_WORK, Stage.CHECKING: "waiting for the other ranks"}


def wanted() -> bool:
    """Whether lines may show: standard error is a terminal, and RANKMESH_PROGRESS is not 0."""
    return (
        sys.stderr is not None
        and sys.stderr.isatty()
        and os.environ.get("RANKMESH_PROGRESS") != "0"
    )


class LoadingLines:
    """Lines that show what is loading, from the third second on, until the end.

    `name` gives the subject of a line by its number. With `prints`, output of this process goes
    above the lines; else sys.stdout and sys.stderr stay as they are. rich is imported with the
    first line.
    """

    def __init__(self, name: Callable[[int], str], prints: bool) -> None:
        self._name, self._prints = name, prints
        self._since: list[tuple[Stage, float]] = []
        self._live: Live | None = None

    def look(self, stages: Sequence[Stage]) -> None:
        """Show the stages, if one lasts; to be called every EVERY seconds."""
        now = time.monotonic()
        before = self._since or [(stage, now) for stage in stages]
        self._since = [
            old if old[0] is stage else (stage, now)
            for old, stage in zip(before, stages, strict=True)
        ]
        if self._live or any(
            stage in _WORK and now - since >= _AFTER for stage, since in self._since
        ):
            self._show(now)

    def end(self) -> None:
        """Remove the lines."""
        if self._live:
            self._live.stop()
            self._live = None

    def _show(self, now: float) -> None:
        from rich.text import Text  # a text, as names may have the brackets of rich's own markup

        if self._live is None:
            self._live = _started(self._prints)
        busy = [(number, *entry) for number, entry in enumerate(self._since) if entry[0] in _SHOWN]
        lines = [
            f"{visible_line(self._name(number))}: {_SHOWN[stage]}, {now - since:.0f} s"
            for number, stage, since in busy[:_MOST_LINES]
        ]
        if len(busy) > _MOST_LINES:
            lines.append(f"and {len(busy) - _MOST_LINES} more ranks")
        self._live.update(Text("\n".join(lines)), refresh=True)


class Loading:
    """A ticker of a supervised job; a context manager that leaves nothing on the terminal.

    `stages` gives the stage of each rank. Lines show only where `wanted` allows it, and once a rank
    has been at one stage for two seconds.
    """

    def __init__(self, stages: Callable[[], Sequence[Stage]]) -> None:
        self._stages = stages
        self._lines = LoadingLines("rank {}".format, prints=True)
        self._over = not wanted()

    def __enter__(self) -> Loading:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def next_timeout(self) -> float | None:
        """See Ticker.next_timeout."""
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


def _started(prints: bool) -> Live:
    """The live display of rich.

    It would redirect standard output to the terminal even if that is a file.
    """
    from rich.console import Console
    from rich.live import Live

    live = Live(
        console=Console(stderr=True),
        auto_refresh=False,
        transient=True,
        redirect_stderr=prints,
        redirect_stdout=prints and sys.stdout is not None and sys.stdout.isatty(),
    )
    live.start()
    return live
