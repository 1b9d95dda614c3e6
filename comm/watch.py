"""A thread that ends a rank whose job has failed: calls of a library may wait for ever, and cannot be interrupted."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NoReturn

from .arena import AbortRecord, Arena, Cause
from .collectives.patience import Patience
from .collectives.register import Roll, mismatch
from .errors import RankFailed
from .progress import Progress, Stage
from .rank import Rank

_INTERVAL = 0.05
_FIRST_WORD = 0.3
"""Seconds in which the rank that is to blame, if it can, speaks first and sets the job's exit status."""

_FLUSHED = 0.2
"""Seconds that printing what the script has printed may take."""

_INTERRUPTED = 130


class Watch:
    """Watches one rank's job from `start` until the rank leaves in order, which is when its interpreter exits.

    Whoever sees a failure first prints one line for all ranks of the host and ends its process; the launcher ends
    the others. `inside` are the collectives that the rank waits in, `processes` those of the host's other ranks.
    `leftover` is a file to remove, `on_exit` is called last, if nothing failed.
    """

    def __init__(self, rank: Rank, arena: Arena, timeout: float, leftover: Path, on_exit: Callable[[], None]) -> None:
        self.inside: set[Roll] = set()
        self.processes: dict[int, int] = {}
        self._rank, self._arena, self._timeout = rank, arena, timeout
        self._leftover, self._on_exit = leftover, on_exit
        self._patience = Patience(arena, rank, timeout)
        self._progress = Progress(arena, rank.rank)
        self._process, self._main_thread = os.getpid(), threading.main_thread().ident
        self._status = 0
        self._previous_hook = sys.excepthook

    def start(self) -> None:
        """Begin to watch; from now on an exception that nobody catches ends the job, with its exit status."""
        sys.excepthook = self._raised
        atexit.register(self._leave)
        threading.Thread(target=self._run, name="rankmesh-watch", daemon=True).start()

    def _run(self) -> None:
        while not self._progress.leaving:
            with suppress(RankFailed):  # what is found is in the arena's record now
                self._look()
            record = self._arena.aborted()
            if record:
                self._end(record)
            time.sleep(_INTERVAL)

    def _look(self) -> None:
        for rank, process in self.processes.items():
            progress = Progress(self._arena, rank)
            if progress.stage is Stage.ENDED and not progress.leaving:
                self._patience.fail(rank, Cause.DIED, (
                    f"rank {rank} of {self._rank.world_size} on {self._rank.host} (process {process}) died: it "
                    f"{progress.read()}"))
        for roll in tuple(self.inside):
            self._look_at(roll)

    def _look_at(self, roll: Roll) -> None:
        found = mismatch(self._rank.rank, roll)
        if found:
            self._patience.fail(found[0], Cause.MISMATCH, found[1])
        self._patience.check_missing(str(roll), roll)
        waited = (time.monotonic_ns() - roll.first_entry()) / 1e9
        if roll.strangers and 0 < self._timeout < waited - _FIRST_WORD:
            self._patience.fail(None, Cause.LATE, (
                f"{self._rank} waited in {roll} for more than {self._timeout:g} s; what ranks {roll.strangers} do "
                "is not known on this host: see what the others say"))

    def _end(self, record: AbortRecord) -> NoReturn:
        """Say why, unless another rank does, and end this process."""
        if record.rank not in (None, self._rank.rank) and record.cause in (Cause.FAILED, Cause.LATE):
            time.sleep(_FIRST_WORD)
        late = record.rank == self._rank.rank and record.cause is Cause.LATE
        self._tell(record.text, f"rank {record.rank} is in:\n{self._stack()}" if late else "")
        self._leftover.unlink(missing_ok=True)
        os._exit(RankFailed.exit_code)

    def _tell(self, text: str, before: str = "") -> None:
        """The last line, once for all ranks of this host; what the script printed comes first, then `before`."""
        flush = threading.Thread(target=sys.stdout.flush, daemon=True)  # the script may be stuck in a print
        flush.start()
        flush.join(_FLUSHED)
        if self._arena.claim_last_word():
            os.write(2, f"{before}rankmesh: {text}\n".encode(errors="replace"))

    def _stack(self) -> str:
        frame = sys._current_frames().get(self._main_thread or 0)
        return "".join(traceback.format_stack(frame)) if frame else ""

    def _raised(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """An exception ends the program: print it as ever, and tell the others, who wait for this rank in vain."""
        self._previous_hook(kind, error, trace)
        if os.getpid() != self._process:
            return
        self._status = _INTERRUPTED if kind is KeyboardInterrupt else getattr(error, "exit_code", 1)
        self._progress.stage = Stage.FAILED
        text = f"{self._rank} raised {kind.__name__}: {error}".rstrip(": ").partition("\n")[0]
        self._tell(text)
        self._arena.abort(self._rank.rank, Cause.FAILED, text)

    def _leave(self) -> None:
        if os.getpid() != self._process:
            return
        self._progress.leave()
        if self._status:
            sys.stdout.flush()
            sys.stderr.flush()
            self._leftover.unlink(missing_ok=True)
            os._exit(self._status)
        self._on_exit()
