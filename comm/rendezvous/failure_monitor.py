"""Failure monitor: a thread that ends a rank when its job has failed.

A call of a library may wait for ever and cannot be interrupted, so the process ends instead.
"""

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
from typing import TYPE_CHECKING, NoReturn

from ..collectives.collective_deadline import CollectiveDeadline
from ..collectives.tracking import PendingCollective, mismatch
from ..errors import RankFailed
from ..job.rank import Rank
from ..job_memory.arena import AbortRecord, Arena, Cause
from ..job_memory.progress import Progress, Stage
from ..transport.channel import Channel
from ..transport.message_stream import ChannelClosed
from ..transport.messages import Failed

if TYPE_CHECKING:
    from .remote_link import RemoteLink  # loads zmq, which ranks under mpirun do without

_INTERVAL = 0.05
_FIRST_WORD = 0.3
"""Seconds in which the rank to blame may print first, and so set the exit status of the job."""

_FLUSHED = 0.2
"""Seconds that flushing the standard output of the script may take."""

_INTERRUPTED = 130


class FailureMonitor:
    """Watches the job of one rank, from `start` until the interpreter exits.

    The first rank of a host that sees a failure prints one line and ends its process; the launcher
    ends the others. `pending` are the collectives that the rank waits in, `processes` the process
    ids of the host's other ranks. `leftover` is a file to remove. `on_exit` is called last, unless
    something failed.
    """

    def __init__(
        self, rank: Rank, arena: Arena, timeout: float, leftover: Path, on_exit: Callable[[], None]
    ) -> None:
        self.pending: set[PendingCollective] = set()
        self.processes: dict[int, int] = {}
        self._rank = rank
        self._arena = arena
        self._timeout = timeout
        self._leftover = leftover
        self._on_exit = on_exit
        self._deadline = CollectiveDeadline(arena, rank, timeout)
        self._progress = Progress(arena, rank.rank)
        self._process = os.getpid()
        self._main_thread = threading.main_thread().ident
        self._status = 0
        self._previous_hook = sys.excepthook

    def start(self) -> None:
        """Begin to watch; an uncaught exception now ends the job, with its exit status."""
        sys.excepthook = self._raised
        atexit.register(self._leave)
        threading.Thread(target=self._run, name="rankmesh-watch", daemon=True).start()

    def _run(self) -> None:
        while not self._progress.leaving:
            with suppress(RankFailed):  # a failure that was found is in the arena now
                self._look()
            record = self._arena.aborted()
            if record:
                self._end(record)
            time.sleep(_INTERVAL)

    def _look(self) -> None:
        for rank, process in self.processes.items():
            progress = Progress(self._arena, rank)
            if progress.stage is Stage.ENDED and not progress.leaving:
                text = (
                    f"rank {rank} of {self._rank.world_size} on {self._rank.host} (process "
                    f"{process}) died: it {progress.read()}"
                )
                self._deadline.fail(rank, Cause.DIED, text)
        for pending in tuple(self.pending):
            self._look_at(pending)

    def _look_at(self, pending: PendingCollective) -> None:
        found = mismatch(self._rank.rank, pending)
        if found:
            self._deadline.fail(found[0], Cause.MISMATCH, found[1])
        self._deadline.check_missing(str(pending), pending)
        waited = (time.monotonic_ns() - pending.first_entry()) / 1e9
        if pending.unseen and 0 < self._timeout < waited - _FIRST_WORD:
            text = (
                f"{self._rank} waited in {pending} for more than {self._timeout:g} s; what ranks "
                f"{pending.unseen} do is not known on this host: see what the others say"
            )
            self._deadline.fail(None, Cause.LATE, text)

    def _end(self, record: AbortRecord) -> NoReturn:
        """Print the reason, unless another rank does, and end this process."""
        own = record.rank in (None, self._rank.rank)
        if not own and record.cause in (Cause.FAILED, Cause.LATE):
            time.sleep(_FIRST_WORD)
        late = record.rank == self._rank.rank and record.cause is Cause.LATE
        self._print(record.text, f"rank {record.rank} is in:\n{self._stack()}" if late else "")
        self._leftover.unlink(missing_ok=True)
        os._exit(RankFailed.exit_code)

    def _print(self, text: str, before: str = "") -> None:
        """Print `before` and the last line, once for all ranks of this host.

        The output of the script comes first. The script may be stuck in a print: so flushing has
        a thread of its own.
        """
        flush = threading.Thread(target=sys.stdout.flush, daemon=True)
        flush.start()
        flush.join(_FLUSHED)
        if self._arena.claim_last_word():
            os.write(2, f"{before}rankmesh: {text}\n".encode(errors="replace"))

    def _stack(self) -> str:
        frame = sys._current_frames().get(self._main_thread or 0)
        return "".join(traceback.format_stack(frame)) if frame else ""

    def _raised(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        """Print the exception that ends the program as ever, and tell the other ranks."""
        self._previous_hook(kind, error, trace)
        if os.getpid() != self._process:
            return
        self._status = _INTERRUPTED if kind is KeyboardInterrupt else getattr(error, "exit_code", 1)
        self._progress.stage = Stage.FAILED
        text = f"{self._rank} raised {kind.__name__}: {error}".rstrip(": ").partition("\n")[0]
        self._print(text)
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


_OWN_END = 2.0
"""Seconds in which a program may end by itself after it raised."""


class RemoteFailureMonitor(FailureMonitor):
    """A FailureMonitor that tells the other hosts first, then the rank's supervisor, if any.

    A supervisor (at the other end of `channel`) ends the rank and prints the reason. A rank
    without one does so itself.
    """

    def __init__(
        self,
        rank: Rank,
        arena: Arena,
        timeout: float,
        leftover: Path,
        link: RemoteLink,
        channel: Channel | None,
    ) -> None:
        super().__init__(rank, arena, timeout, leftover, lambda: None)
        self._link = link
        self._channel = channel

    def report_failure(self) -> None:
        """Tell the other hosts why the job has failed, if it has."""
        record = self._arena.aborted()
        if record:
            stopped = f" on {self._rank.host}" if record.cause is Cause.STOPPED else ""
            self._link.fail(Failed("RankFailed", record.text + stopped, record.rank))

    def _end(self, record: AbortRecord) -> NoReturn:
        self.report_failure()
        raised = record.rank == self._rank.rank and record.cause is Cause.FAILED
        if raised:
            threading.Event().wait(_OWN_END)  # the program ends with its own status meanwhile
        if self._channel is None or raised:
            super()._end(record)
        failed = self._link.failure or Failed("RankFailed", record.text, record.rank)
        if failed.rank is None:
            failed = Failed(
                failed.error, f"{failed.text}\nMeanwhile {self._rank} {self._progress.read()}"
            )
        try:
            self._channel.send(failed)
        except ChannelClosed:
            super()._end(record)
        while True:
            threading.Event().wait()
