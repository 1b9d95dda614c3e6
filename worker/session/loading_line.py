"""Loading line: shows on a terminal what a process does to a model that takes long to load."""

from __future__ import annotations

import os
import threading
from types import TracebackType

from ...comm.collectives.backend import Collectives
from ...comm.collectives.registry import BackendChoice
from ...comm.job.rank import Rank
from ...comm.job_memory.progress import Stage
from ...comm.processes.loading_lines import EVERY, LoadingLines, wanted
from ...comm.rendezvous.rendezvous import Groups, Pairs, Rendezvous

_TERMINAL = threading.Lock()


class LoadingLine:
    """A context manager around the loading of a model, which `enter` tells what is being done.

    A thread watches, and shows a line once loading has taken two seconds, where `wanted` allows it.
    Of several models that load at once, and of several ranks of a host, only the first has the
    terminal.
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
            self._thread = threading.Thread(
                target=self._look_on, name="rankmesh-loading", daemon=True
            )
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._thread:
            self._over.set()
            self._thread.join()
            _TERMINAL.release()

    def enter(self, stage: Stage, path: str = "") -> None:
        """Say what is done now, and to which file if that is another one."""
        self._stage = stage
        self._path = path or self._path

    def _name(self, _: int) -> str:
        return self._among or os.path.basename(self._path)

    def _look_on(self) -> None:
        lines = LoadingLines(
            self._name, prints=False
        )  # what the user's script has as sys.stdout is its own
        while not self._over.wait(EVERY):
            lines.look([self._stage])
        lines.end()


class ShownRendezvous:
    """A rendezvous whose stages a line shows too."""

    def __init__(self, rendezvous: Rendezvous, line: LoadingLine) -> None:
        self.rank = rendezvous.rank
        self._rendezvous = rendezvous
        self._line = line

    @property
    def choice(self) -> BackendChoice:
        """See Rendezvous.choice."""
        return self._rendezvous.choice

    @choice.setter
    def choice(self, choice: BackendChoice) -> None:
        self._rendezvous.choice = choice

    def enter(self, stage: Stage) -> None:
        """See Rendezvous.enter."""
        self._line.enter(stage)
        self._rendezvous.enter(stage)

    def exchange(self, payload: bytes) -> list[bytes]:
        """See Rendezvous.exchange."""
        return self._rendezvous.exchange(payload)

    def collectives(self, groups: Groups, pairs: Pairs) -> Collectives:
        """See Rendezvous.collectives."""
        return self._rendezvous.collectives(groups, pairs)
