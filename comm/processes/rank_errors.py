"""Rank errors: describes which rank failed, where and how, and quotes the last lines it wrote."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import RankDied, RankFailed, RankHung, RankmeshError, error_named
from ..job_memory.progress import ProgressSnapshot, Stage
from ..loggers import read_level
from ..transport.messages import Failed
from .rank_process import KEPT_LINES
from .supervised_process import SupervisedProcess

_STAGES = {
    Stage.STARTING: "spawned",
    Stage.READING: "imported",
    Stage.CHECKING: "imported",
    Stage.BUILDING: "joined",
    Stage.READY: "loaded",
    Stage.RUNNING: "warmed",
}
"""The last stage of its start that a rank of an orchestrator has completed."""

_NEXT_STAGE = {
    "spawned": "imported",
    "imported": "joined",
    "joined": "loaded",
    "loaded": "warmed",
    "warmed": "ready",
}
_COLLECTIVE_TIMEOUT = (
    "If it only needs more time, set RANKMESH_COLLECTIVE_TIMEOUT (seconds, 0 = no deadline)."
)


def describe_rank(process: SupervisedProcess) -> str:
    """A rank with its host, process and device: "rank 1 of 2 on node-a (pid 7, device 0)".

    A process that an agent has not told of has no pid yet: "(not started)".
    """
    place = process.place
    pid = f"pid {process.pid}" if process.pid else "not started"
    return f"{process.rank} ({pid}{place and ', '}{place})"


def with_last_lines(
    error: RankFailed, process: SupervisedProcess, most: int = KEPT_LINES
) -> RankFailed:
    """`error` with up to `most` of the lines that the rank wrote last, without their log levels."""
    lines = "".join(f"\n  {read_level(line)[1]}" for line in list(process.last_lines)[-most:])
    if not lines:
        return error
    return type(error)(f"{error}\nLast lines of rank {process.rank.rank}:{lines}")


def sent_error(process: SupervisedProcess, sent: Failed) -> RankmeshError:
    """The error that a rank has sent, with the rank where the job has several."""
    rank = process.rank
    named = rank.world_size == 1 or f"rank {rank.rank}" in sent.text
    return error_named(sent.error, sent.text if named else f"rank {rank.rank}: {sent.text}")


def failed(process: SupervisedProcess, text: str) -> RankFailed:
    """A rank has failed: `text` is the rest of the sentence about it."""
    return RankFailed(f"{describe_rank(process)} {text}")


def exited_early(process: SupervisedProcess, progress: ProgressSnapshot) -> RankFailed:
    """A rank of a job has ended before its work was done."""
    known = progress.stage is not Stage.STARTING  # a script may build no model
    doing = f" while it {progress}" if known else ""
    return failed(process, f"{process.epitaph()}{doing}")


def never_arrived(progress: Mapping[int, ProgressSnapshot], seconds: float) -> RankFailed:
    """Ranks, with their progress, have not joined an exchange within `seconds`."""
    names = ", ".join(map(str, progress))
    stages = ", ".join(f"rank {rank} {one}" for rank, one in progress.items())
    return RankFailed(
        f"rank {names} did not arrive within {seconds:g} s of the first rank: {stages}. "
        f"{_COLLECTIVE_TIMEOUT}"
    )


def unresponsive(
    process: SupervisedProcess, progress: ProgressSnapshot, seconds: float
) -> RankFailed:
    """A rank has taken nothing of its messages for `seconds`."""
    return RankFailed(
        f"{describe_rank(process)} has taken nothing of what the other ranks gave for "
        f"{seconds:g} s: it {progress}, and may be stopped or stuck. {_COLLECTIVE_TIMEOUT}"
    )


def stuck(process: SupervisedProcess) -> str:
    """A killed process is inside a system call that the kernel cannot interrupt."""
    return (
        f"{describe_rank(process)} has been killed but does not end: "
        "the kernel ends it when its system call returns"
    )


def died(process: SupervisedProcess, progress: ProgressSnapshot) -> RankDied:
    """The process of an orchestrator's rank has ended."""
    return RankDied(f"{describe_rank(process)} {process.epitaph()} while it {_doing(progress)}")


def hung(
    process: SupervisedProcess,
    progress: Mapping[int, ProgressSnapshot],
    seconds: float,
    is_stopped: bool,
) -> RankHung:
    """A rank has made no progress for `seconds`; `progress` is that of all ranks."""
    rank = process.rank.rank
    how = "is stopped by a signal and made" if is_stopped else "made"
    waiting = [f"rank {r} {one}" for r, one in progress.items() if r != rank and one.waiting]
    never = ""
    if waiting and not progress[rank].waiting:
        never = f", and never entered that in which others wait: {'; '.join(waiting)}"
    return RankHung(
        f"{describe_rank(process)} {how} no progress for {seconds:g} s: it {_doing(progress[rank])}"
        f"{never}. If requests may take longer, give a larger hang_timeout."
    )


def not_ready(
    process: SupervisedProcess, progress: ProgressSnapshot, seconds: float, is_stopped: bool
) -> RankHung:
    """A rank was not ready within `seconds` of its start."""
    stage = stage_name(progress)
    return RankHung(
        f"{describe_rank(process)} was not ready within {seconds:.3g} s: it is '{stage}' and not "
        f"yet '{_NEXT_STAGE.get(stage, 'ready')}'; {_remedy(is_stopped)}."
    )


def weights_not_ready(process: SupervisedProcess, seconds: float, is_stopped: bool) -> RankHung:
    """A rank has not staged new weights within `seconds`."""
    return RankHung(
        f"{describe_rank(process)} has not made new weights ready within {seconds:.3g} s: "
        f"{_remedy(is_stopped)}."
    )


def stage_name(progress: ProgressSnapshot) -> str:
    """The stage of an orchestrator's rank as its status shows it."""
    return _STAGES.get(progress.stage, progress.stage.name.lower())


def _remedy(is_stopped: bool) -> str:
    if is_stopped:
        return "it is stopped by a signal"
    return "if it only needs more time, give a larger start_timeout"


def _doing(progress: ProgressSnapshot) -> str:
    if progress.entered or progress.stage is Stage.RUNNING:
        return str(progress)
    return f"was '{stage_name(progress)}'"
