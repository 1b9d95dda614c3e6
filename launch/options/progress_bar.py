"""Progress bar: shows how far a command is, on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[str, int, int], None]
"""Told of progress: what is done, bytes or steps done, and how many there are in all."""


@contextmanager
def progress_bar() -> Iterator[Progress | None]:
    """A bar on standard error, where that is a terminal; else None."""
    if not sys.stderr.isatty() or os.environ.get("RANKMESH_PROGRESS") == "0":
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bars

    with Bars(console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, int] = {}

        def told(what: str, done: int, of: int) -> None:
            task = tasks.setdefault(what, len(tasks))
            if task == len(bars.tasks):
                bars.add_task(what, total=of)
            bars.update(bars.tasks[task].id, completed=done, total=of)

        yield told
