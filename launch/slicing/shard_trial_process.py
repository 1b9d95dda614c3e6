"""Process of a shard trial: `python -m rankmesh.launch.slicing.shard_trial_process PARENT`.

`comm/processes/shard_trial.py` starts it. It takes requests from standard input.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module

import msgspec

from ...comm.decoding import decode_payloads
from ...comm.errors import OutOfMemory, RankmeshError, error_parts
from ...comm.job.placement import local_ranks
from ...comm.job.rank import Rank
from ...comm.job.shard import Shards
from ...comm.processes.child_answer import tell
from ...comm.processes.quick_imports import quick_imports
from ...comm.processes.rank_main import rank_main, set_parent_death_signal
from ...comm.processes.rank_process import Command
from ...comm.processes.shard_trial import TrialAnswer, TrialRequest, decode_request
from ...comm.transport.messages import Start
from ...worker.executors.settings import ExecutorSettings, PrecisionSettings
from ...worker.runtime.program_spec import ProgramSpec
from ..rank.job import RankReport, RunJob
from ..rank.rank_main import carry_out
from ..supervision.supervised_job import SupervisedJob

_OF_RANKS = (
    "launch.rank.run_rank",
    "compiler.model_file.onnx_format",
    "worker.partition.cut",
    "worker.partition.origin",
    "compiler.onnx_graph.constant_folding",
    "comm.collectives.shared_memory.collectives",
    "comm.collectives.shared_memory.mailbox",
)
"""Modules that a rank imports when it comes to need them."""

with quick_imports():
    from ...worker.runtime.lone_loading import load_alone

    for _name in _OF_RANKS:  # once for all ranks
        import_module(f"rankmesh.{_name}")


_PATIENCE = 300.0
"""Seconds that ranks wait for each other: all may have few cores, and large shards."""


def answer_to(request: TrialRequest) -> TrialAnswer:
    """Try shards; whatever a rank raises is part of the answer."""
    ranks = [one.rank for one in local_ranks(request.ranks, "here", [0] * request.ranks, ())]
    try:
        if request.extent == "run":
            return _compared(_run_together(request, ranks))
        for rank in ranks:
            load_alone(_spec(_path(request, rank)), rank, request.extent == "load")
    except Exception as error:
        name, text, _ = error_parts(error)
        return TrialAnswer(error=name, text=text, short_of_memory=name == OutOfMemory.__name__)
    return TrialAnswer()


def _spec(path: str) -> ProgramSpec:
    precision = PrecisionSettings.default("cpu")
    return ProgramSpec(path, ExecutorSettings(spin=False), precision, same_inputs=True)


def _path(request: TrialRequest, rank: Rank) -> str:
    return Shards(request.pattern, request.ranks).path(rank.rank)


def _run_together(request: TrialRequest, ranks: Sequence[Rank]) -> list[RankReport]:
    """Run all ranks as `rankmesh run` does, in forks of this process."""
    job = RunJob(
        _spec(request.pattern),
        request.ranks,
        "shared_memory",
        request.inputs,
        request.inputs if request.compares else None,
        None,
        None,
        None,
        0,
    )
    encoded = msgspec.msgpack.encode(job)
    commands = [
        Command((), start=Start(rank, encoded, _PATIENCE), program=_rank_process) for rank in ranks
    ]
    with SupervisedJob(ranks, commands, _PATIENCE, _ignore) as supervised:
        try:
            return decode_payloads(supervised.run(), RankReport)
        except RankmeshError as error:
            if supervised.status == -signal.SIGKILL:
                raise OutOfMemory(str(error)) from error
            raise


def _rank_process() -> None:
    rank_main("a rank", "a shard trial", carry_out)


def _ignore(rank: int, stream: int, line: str) -> None:
    """Leave out what ranks write: an error has their last lines."""


def _compared(reports: Iterable[RankReport]) -> TrialAnswer:
    """The largest error of all outputs of all ranks, or the first output that has none."""
    largest = 0.0
    for report in reports:
        for one in report.outputs:
            if not one.compared:
                continue
            if one.max_relative is None or not one.max_relative < float("inf"):
                return TrialAnswer(
                    differs=f"the output '{one.name}' of rank {report.rank} {one.error}"
                )
            largest = max(largest, one.max_relative)
    return TrialAnswer(largest)


def main() -> None:
    """Answer the requests of standard input, one a line; the argument is the parent's number."""
    set_parent_death_signal(int(sys.argv[1]))
    for line in sys.stdin.buffer:
        tell(answer_to(decode_request(line)))
        sys.stdout.write("\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
