"""The errors that say which rank failed, how, and what it wrote last."""

from __future__ import annotations

from ..comm.errors import RankDied, RankHung
from ..comm.processes.rank_process import RankProcess
from ..comm.progress import Snapshot, Stage

_TAIL = 8
STAGES = {
    Stage.STARTING: "spawned", Stage.READING: "imported", Stage.CHECKING: "imported", Stage.BUILDING: "joined",
    Stage.READY: "loaded", Stage.RUNNING: "warmed",
}
"""The last stage of its start that a rank has behind it."""


def died(process: RankProcess, progress: Snapshot) -> RankDied:
    """A rank's process has ended."""
    return RankDied(f"{_who(process)} {process.epitaph()} while it {_doing(progress)}{_last_lines(process)}")


def hung(process: RankProcess, progress: Snapshot, seconds: float, stopped: bool) -> RankHung:
    """A rank has made no progress for `seconds`."""
    how = "is stopped by a signal and made" if stopped else "made"
    return RankHung(f"{_who(process)} {how} no progress for {seconds:g} s: it {_doing(progress)}. If requests may take "
                    f"longer, give a larger hang_timeout.{_last_lines(process)}")


def late(process: RankProcess, progress: Snapshot, seconds: float) -> RankHung:
    """A rank was not ready in time."""
    return RankHung(f"{_who(process)} was not ready within {seconds:g} s: it is {stage_of(progress)}. If it only needs "
                    f"more time, give a larger start_timeout.{_last_lines(process)}")


def stage_of(progress: Snapshot) -> str:
    """The stage as users see it."""
    return STAGES.get(progress.stage, progress.stage.name.lower())


def _doing(progress: Snapshot) -> str:
    return str(progress) if progress.entered or progress.stage is Stage.RUNNING else f"was {stage_of(progress)}"


def _who(process: RankProcess) -> str:
    return f"{process.rank} (pid {process.pid}, device {process.rank.device})"


def _last_lines(process: RankProcess) -> str:
    lines = "".join(f"\n  {line}" for line in list(process.last_lines)[-_TAIL:])
    return f"\nLast lines of rank {process.rank.rank}:{lines}" if lines else ""
