"""What a terminal shows while models load for long: a line for each rank, or for the model of this process."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .progress import Stage
from .visible import visible_line

if TYPE_CHECKING:
    from rich.live import Live

EVERY = 0.25
"""Seconds from one look at the stages to the next."""

_AFTER = 2.0
_MOST_LINES = 8
_VARIABLE = "RANKMESH_PROGRESS"
_WORK = {Stage.READING: "reading and lowering the model", Stage.BUILDING: "preparing the model"}
_SHOWN = {**_WORK, Stage.CHECKING: "waiting for the other ranks"}


def wanted() -> bool:
    """Whether lines may show: standard error is a terminal, and RANKMESH_PROGRESS is not 0."""
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get(_VARIABLE) != "0"


class LoadingLines:
    """Lines that appear when one of several is at a stage of loading for two seconds, and vanish in the end.

    `name` is what a line is about, by its number. `prints` is whether what this process prints meanwhile goes above
    the lines; else sys.stdout and sys.stderr stay as they are. rich is not even imported before a line shows.
    """

    def __init__(self, name: Callable[[int], str], prints: bool) -> None:
        self._name, self._prints = name, prints
        self._since: list[tuple[Stage, float]] = []
        self._live: Live | None = None

    def look(self, stages: Sequence[Stage]) -> None:
        """Show what all are at, if anything lasts; to be called every EVERY seconds."""
        now = time.monotonic()
        before = self._since or [(stage, now) for stage in stages]
        self._since = [old if old[0] is stage else (stage, now) for old, stage in zip(before, stages, strict=True)]
        if self._live or any(stage in _WORK and now - since >= _AFTER for stage, since in self._since):
            self._show(now)

    def end(self) -> None:
        """Take the lines away."""
        if self._live:
            self._live.stop()
            self._live = None

    def _show(self, now: float) -> None:
        from rich.text import Text  # a text, as names may have the brackets of rich's own markup

        if self._live is None:
            self._live = _started(self._prints)
        busy = [(number, *entry) for number, entry in enumerate(self._since) if entry[0] in _SHOWN]
        lines = [f"{visible_line(self._name(number))}: {_SHOWN[stage]}, {now - since:.0f} s"
                 for number, stage, since in busy[:_MOST_LINES]]
        if len(busy) > _MOST_LINES:
            lines.append(f"and {len(busy) - _MOST_LINES} more ranks")
        self._live.update(Text("\n".join(lines)), refresh=True)


def _started(prints: bool) -> Live:
    """rich's lines; it would send what is printed for standard output to the terminal too, if that is a file."""
    from rich.console import Console
    from rich.live import Live

    live = Live(console=Console(stderr=True), auto_refresh=False, transient=True, redirect_stderr=prints,
                redirect_stdout=prints and sys.stdout is not None and sys.stdout.isatty())
    live.start()
    return live
