"""What a terminal shows while this process itself reads, lowers or prepares a model for long."""

from __future__ import annotations

import os
import threading
from types import TracebackType

from ..comm.collectives.base import Collectives
from ..comm.loading_lines import EVERY, LoadingLines, wanted
from ..comm.progress import Stage
from ..comm.rank import Rank
from ..comm.rendezvous import Groups, Meeting, Pairs

_TERMINAL = threading.Lock()


class LoadingLine:
    """A context manager around the loading of a model, which `enter` tells what is being done.

    A thread looks on, and shows a line where that lasts for two seconds and `wanted` allows it. Of several models that
    threads load at once, and of several ranks of a host, the first alone has the terminal.
    """

    def __init__(self, path: str, rank: Rank | None = None) -> None:
        """The line is about the file at `path`, or about `rank` where that has others beside it."""
        self._path = path
        self._among = f"rank {rank.rank}" if rank and rank.world_size > 1 else ""
        self._first = rank is None or rank.local_rank == 0
        self._stage = Stage.STARTING
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> LoadingLine:
        if self._first and wanted() and _TERMINAL.acquire(blocking=False):
            self._thread = threading.Thread(target=self._look_on, name="rankmesh-loading", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._thread:
            self._over.set()
            self._thread.join()
            _TERMINAL.release()

    def enter(self, stage: Stage, path: str = "") -> None:
        """Say what is done now, and to which file if that is another one."""
        self._stage, self._path = stage, path or self._path

    def _name(self, _: int) -> str:
        return self._among or os.path.basename(self._path)

    def _look_on(self) -> None:
        lines = LoadingLines(self._name, prints=False)  # what the user's script has as sys.stdout is its own
        while not self._over.wait(EVERY):
            lines.look([self._stage])
        lines.end()


class ShownMeeting:
    """A meeting whose stages a line shows too."""

    def __init__(self, meeting: Meeting, line: LoadingLine) -> None:
        self.rank, self.implementation = meeting.rank, meeting.implementation
        self._meeting, self._line = meeting, line

    def enter(self, stage: Stage) -> None:
        """See Meeting.enter."""
        self._line.enter(stage)
        self._meeting.enter(stage)

    def exchange(self, payload: bytes) -> list[bytes]:
        """See Meeting.exchange."""
        return self._meeting.exchange(payload)

    def collectives(self, groups: Groups, pairs: Pairs) -> Collectives:
        """See Meeting.collectives."""
        return self._meeting.collectives(groups, pairs)
