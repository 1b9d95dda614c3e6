"""Lone loading: a rank's shard is read, and its segments are prepared, without the other ranks."""

from __future__ import annotations

from ...comm.job.rank import Rank
from ..cache.build_cache import read_build
from ..executors.precise import Precision, PrecisionExecutor
from ..executors.registry import open_executor
from .program_spec import ProgramSpec


def load_alone(spec: ProgramSpec, rank: Rank, prepare: bool) -> None:
    """Read a shard as `rank` does; raises ModelError where it cannot be read.

    With `prepare` the executor loads each segment, one after the other: no more than one is in
    memory.
    """
    precision = Precision(spec.precision.mode, spec.precision.nodes)
    executor = PrecisionExecutor(open_executor(spec.executor), precision)
    build = read_build(
        spec.path, rank, executor, spec.input_shapes, spec.decryption, None, spec.assets
    )
    for segment in build.plan.segments if prepare else ():
        build.load(segment)
