"""Which rank's fault ends the job, and the one error that says so."""

from __future__ import annotations

import selectors
import signal
import time
from collections.abc import Sequence
from typing import NoReturn

from ..comm.arena import Arena, Cause
from ..comm.errors import CollectiveTimeout, RankFailed, RankmeshError, error_named
from ..comm.messages import Failed
from ..comm.processes.rank_process import RankProcess
from ..comm.progress import Progress, Snapshot, Stage
from ..comm.rank import Rank

_GRACE = 0.4
_TAIL = 8


class Blame:
    """Raises the error of the first failure, after noting it in the arena, which ends the others' collectives.

    `processes` are this host's, in rank order; more may come. Then `status` is what the process to blame had exited
    with by itself (negative for a signal; None: it had not), and `errors` has its error, by its rank.
    """

    def __init__(self, arena: Arena, processes: Sequence[RankProcess], timeout: float) -> None:
        self._arena, self._processes, self._timeout = arena, processes, timeout
        self.status: int | None = None
        self.errors: dict[int, str] = {}

    def died(self, process: RankProcess, came_so_far: Snapshot) -> NoReturn:
        """A process has failed: by itself, or because of the rank whose fault ended its collectives."""
        record = self._arena.aborted()
        if record is not None and record.rank not in (None, process.rank.rank):
            self._fail(self._process_of(record.rank) or process, record.cause, RankFailed(record.text))
        self._fail(process, Cause.DIED, RankFailed(f"{_who(process)} {process.epitaph()}{_doing(came_so_far)}"))

    def left(self, rank: int) -> NoReturn:
        """A rank has ended in order, but others wait for it."""
        process = self._processes[rank]
        self._fail(process, Cause.DIED, RankFailed(f"{_who(process)} {process.epitaph()} while others wait for it"))

    def failed(self, process: RankProcess, failed: Failed) -> NoReturn:
        """A rank has said what went wrong; what another host's ranks did is in the arena already."""
        error = error_named(failed.error, _with_rank(process.rank, failed.text))
        if failed.rank is not None and self._process_of(failed.rank) is None:
            raise error
        if isinstance(error, CollectiveTimeout):
            record = self._arena.aborted()
            process = self._process_of(record.rank if record else None) or process
            process.send_signal(signal.SIGUSR1)  # faulthandler writes its stacks to the rank's output
            _drain(process, _GRACE)
        self._fail(process, Cause.FAILED, error)

    def late(self, ranks: Sequence[int]) -> NoReturn:
        """Ranks have not come to an exchange in time."""
        stages = ", ".join(f"rank {r} {Progress(self._arena, r).read()}" for r in ranks)
        names = ", ".join(map(str, ranks))
        self._fail(self._processes[ranks[0]], Cause.LATE, RankFailed(
            f"rank {names} did not arrive within {self._timeout:g} s of the first rank: {stages}. If it only "
            f"needs more time, set RANKMESH_COLLECTIVE_TIMEOUT (seconds, 0 = no deadline)."))

    def deaf(self, process: RankProcess) -> NoReturn:
        """A rank takes nothing of what the others gave for it."""
        progress = Progress(self._arena, process.rank.rank).read()
        self._fail(process, Cause.LATE, RankFailed(
            f"{_who(process)} has taken nothing of what the other ranks gave for {self._timeout:g} s: it {progress}, "
            f"and may be stopped or stuck. If it only needs more time, set RANKMESH_COLLECTIVE_TIMEOUT (seconds, 0 = "
            f"no deadline)."))

    def stopped(self, process: RankProcess) -> NoReturn:
        """A rank of a job on several hosts is stopped by a signal."""
        self._fail(process, Cause.LATE, RankFailed(
            f"{_who(process)} is stopped, so that the other hosts take it for gone"))

    def _process_of(self, rank: int | None) -> RankProcess | None:
        """The process of `rank`; None where it is nobody's of this host."""
        return next((process for process in self._processes if process.rank.rank == rank), None)

    def _fail(self, process: RankProcess, cause: Cause, error: RankmeshError) -> NoReturn:
        """Abort the others' collectives and raise: the first failure is the one the user sees."""
        self._arena.abort(process.rank.rank, cause, str(error))
        self.status = None if process.running else process.status()
        self.errors = {process.rank.rank: str(error)}
        process.read_outputs()
        lines = "".join(f"\n  {line}" for line in list(process.last_lines)[-_TAIL:])
        if lines and isinstance(error, RankFailed) and len(self._processes) > 1:  # a lone rank's have just been shown
            error = type(error)(f"{error}\nLast lines of rank {process.rank.rank}:{lines}")
        raise error


def has_ended(arena: Arena, rank: int) -> bool:
    """Whether a rank's process is gone."""
    return Progress(arena, rank).stage is Stage.ENDED


def _with_rank(rank: Rank, text: str) -> str:
    """An error's text, which names the rank it came from where there are several."""
    return text if rank.world_size == 1 or f"rank {rank.rank}" in text else f"rank {rank.rank}: {text}"


def _who(process: RankProcess) -> str:
    return f"{process.rank} (pid {process.pid})"


def _doing(progress: Snapshot) -> str:
    """What an ended rank was doing; nothing is known of a script that has built no model."""
    return "" if progress.stage is Stage.STARTING else f" while it {progress}"


def _drain(process: RankProcess, seconds: float) -> None:
    """Read what a rank writes until it falls silent."""
    deadline = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        for output in process.outputs:
            selector.register(output, selectors.EVENT_READ, output)
        while time.monotonic() < deadline and (events := selector.select(0.1)):
            if not all([key.data.read() for key, _ in events]):
                return
