"""Joined build: a build whose segments onnxruntime has optimized together.

Each segment that is optimized alone begins and ends with images as ONNX has them. Of those that are
optimized together, only what collectives take and give has that layout. The weights of all lie in
one file.
"""

from __future__ import annotations

import msgspec
import onnx
from google.protobuf.message import DecodeError

from ...comm.errors import ModelError, UsageError
from ...comm.host.private_folder import PrivateFolder
from ...comm.loggers import LOG
from ..cache.build_cache import Build
from ..executors.base import Executor, JoiningExecutor, PartRunnable, Runnable, joining
from ..image_layout.image_rows import keep_rows_in_layout
from ..image_layout.joined_segment import joined_segment
from ..image_layout.optimized_parts import OptimizedParts
from ..partition.plan import Segment, Step


def joined_build(build: Build, executor: Executor) -> Build:
    """The build with joined segments, or the same one where these gain nothing or cannot be had."""
    joiner = joining(executor)
    if joiner is None or build.memory:
        return build
    try:
        if build.joined:
            return _parted(build, joiner, build.joined)
        segment = joined_segment(build.plan)
        return _optimized(build, joiner, segment) if segment else build
    except (ModelError, UsageError, OSError) as error:
        LOG.warning("%s: its segments are optimized one by one: %s", build.plan.path, error)
        return build


def _optimized(build: Build, executor: JoiningExecutor, segment: Segment) -> Build:
    """The build whose segments are parts of `segment`, which is saved for a while."""
    folder = PrivateFolder("layouts")
    try:
        place = str(folder.path / "joined.onnx")
        executor.save(segment, build.plan.folder, place)
        return _parted(build, executor, place)
    finally:
        folder.close()  # weights stay mapped


def _parted(build: Build, executor: JoiningExecutor, place: str) -> Build:
    """The build whose segments are parts of the saved model at `place`."""
    plan = build.plan
    try:
        model = onnx.load(place, load_external_data=False)
    except DecodeError as error:
        raise ModelError(f"{place} is damaged: {error}.") from error
    keep_rows_in_layout(model.graph)
    parts = OptimizedParts(plan, model)
    types = {**plan.types, **{one.value: one.type for one in plan.inputs}}
    steps: list[Step] = []
    loaded: dict[int, PartRunnable] = {}
    for step in parts.steps:
        if isinstance(step, int):
            segment = parts.segment(step, types)
            runnable = executor.load_part(segment, place)
            types.update({k: v for k, v in runnable.output_types().items() if k not in types})
            loaded[id(segment)] = runnable
            steps.append(segment)
        else:
            steps.append(step)
    run = msgspec.structs.replace(plan, steps=tuple(steps), types=types)

    def load(segment: Segment) -> Runnable:
        build.check()
        return loaded[id(segment)]

    return build._replace(run=run, load=load)
