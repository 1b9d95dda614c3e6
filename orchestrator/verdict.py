"""The errors that say which rank failed, how, and what it wrote last."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ..comm.errors import CollectiveAborted, RankDied, RankFailed, RankHung, RankmeshError, error_named
from ..comm.processes.log_lines import read_level
from ..comm.processes.rank_process import RankProcess
from ..comm.progress import Snapshot, Stage
from ..comm.serving.nonsense import Nonsense
from ..comm.serving.orders import Answer

_LOG = logging.getLogger("rankmesh.orchestrator")

STAGES = {
    Stage.STARTING: "spawned", Stage.READING: "imported", Stage.CHECKING: "imported", Stage.BUILDING: "joined",
    Stage.READY: "loaded", Stage.RUNNING: "warmed",
}
"""The last stage of its start that a rank has behind it."""

_NEXT = {"spawned": "imported", "imported": "joined", "joined": "loaded", "loaded": "warmed", "warmed": "ready"}


class RemoteTraceback(Exception):
    """Where in a rank's process an error comes from; the cause of the error that the caller gets."""

    def __init__(self, rank: int, trace: str) -> None:
        super().__init__(f"on rank {rank}:\n{trace}")


def died(process: RankProcess, progress: Snapshot) -> RankDied:
    """A rank's process has ended."""
    return RankDied(f"{_who(process)} {process.epitaph()} while it {_doing(progress)}{_last_lines(process)}")


def faulty(process: RankProcess, fault: Exception) -> RankFailed:
    """A rank has written what cannot be; or the watch over the ranks has met a fault of its own."""
    if isinstance(fault, Nonsense):
        return RankFailed(f"{_who(process)} {fault}{_last_lines(process)}")
    _LOG.error("a fault while the ranks were watched", exc_info=fault, extra={"rank": process.rank.rank})
    return RankFailed(f"{_who(process)} could not be watched any more: {type(fault).__name__}: {fault}"
                      f"{_last_lines(process)}")


def hung(process: RankProcess, progress: Mapping[int, Snapshot], seconds: float, stopped: bool) -> RankHung:
    """A rank has made no progress for `seconds`; `progress` is every rank's."""
    rank = process.rank.rank
    how = "is stopped by a signal and made" if stopped else "made"
    waiting = [f"rank {other} {one}" for other, one in progress.items() if other != rank and one.waiting]
    never = f", and never entered that in which others wait: {'; '.join(waiting)}" if waiting else ""
    return RankHung(f"{_who(process)} {how} no progress for {seconds:g} s: it {_doing(progress[rank])}"
                    f"{'' if progress[rank].waiting else never}. If requests may take longer, give a larger "
                    f"hang_timeout.{_last_lines(process)}")


def late(process: RankProcess, progress: Snapshot, seconds: float, stopped: bool) -> RankHung:
    """A rank was not ready in time."""
    stage = stage_of(progress)
    why = "it is stopped by a signal" if stopped else "if it only needs more time, give a larger start_timeout"
    return RankHung(f"{_who(process)} was not ready within {seconds:.3g} s: it is '{stage}' and not yet "
                    f"'{_NEXT.get(stage, 'ready')}'; {why}.{_last_lines(process)}")


def unprepared(process: RankProcess, seconds: float, stopped: bool) -> RankHung:
    """A rank has not made new weights ready in time."""
    why = "it is stopped by a signal" if stopped else "if it only needs more time, give a larger start_timeout"
    return RankHung(f"{_who(process)} has not made new weights ready within {seconds:.3g} s: {why}."
                    f"{_last_lines(process)}")


def fault_of(answers: Mapping[int, Answer], world_size: int) -> RankmeshError | None:
    """The error among ranks' answers that tells most; one that only follows another's comes last."""
    faults = [(answer.error == CollectiveAborted.__name__, rank) for rank, answer in answers.items() if answer.error]
    if not faults:
        return None
    rank = min(faults)[1]
    text = answers[rank].text
    named = text if world_size == 1 or f"rank {rank}" in text else f"rank {rank}: {text}"
    error = error_named(answers[rank].error, named)
    if answers[rank].trace:
        error.__cause__ = RemoteTraceback(rank, answers[rank].trace)
    return error


def stage_of(progress: Snapshot) -> str:
    """The stage as users see it."""
    return str(STAGES.get(progress.stage, progress.stage.name.lower()))


def _doing(progress: Snapshot) -> str:
    return str(progress) if progress.entered or progress.stage is Stage.RUNNING else f"was '{stage_of(progress)}'"


def _who(process: RankProcess) -> str:
    place = process.command.place
    return f"{process.rank} (pid {process.pid}{place and ', '}{place})"


def _last_lines(process: RankProcess) -> str:
    lines = "".join(f"\n  {read_level(line)[1]}" for line in list(process.last_lines))
    return f"\nLast lines of rank {process.rank.rank}:{lines}" if lines else ""
