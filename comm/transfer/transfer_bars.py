"""Transfer bars: show on a terminal how far the files of models are on their way to hosts."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ..processes.loading_lines import wanted
from ..text import visible_line

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class TransferBars:
    """A bar for each transfer, on standard error. Any thread calls.

    rich is imported with the first. Bars show on a terminal, unless RANKMESH_PROGRESS is 0.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tasks: dict[str, TaskID] = {}
        self._shown: Progress | None = None

    def tell(self, what: str, done: int, of: int) -> None:
        """Show that the other end has `done` of so many bytes."""
        if not wanted():
            return
        with self._lock:
            shown = self._shown = self._shown or _started()
            if what not in self._tasks:
                self._tasks[what] = shown.add_task(visible_line(what), total=of, completed=done)
            shown.update(self._tasks[what], completed=done)

    def end(self, what: str) -> None:
        """Remove a bar; the last one leaves nothing on the terminal."""
        with self._lock:
            task = self._tasks.pop(what, None)
            if task is None or self._shown is None:
                return
            self._shown.remove_task(task)
            if not self._tasks:
                self._shown.stop()
                self._shown = None


def _started() -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    shown = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
    )
    shown.start()
    return shown
