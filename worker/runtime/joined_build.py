"""Joined build: a build whose segments onnxruntime has optimized together.

Each segment that is optimized alone begins and ends with images as ONNX has them. Of those that are
optimized together, only what collectives take and give has that layout, and not even that where all
ranks can do without. The weights of all lie in one file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import NamedTuple, TypeVar

import msgspec
import onnx
from google.protobuf.message import DecodeError
from onnx import ModelProto, TensorProto, numpy_helper

from ...comm.decoding import decode_payloads
from ...comm.errors import ModelError, UsageError
from ...comm.host.private_folder import PrivateFolder
from ...comm.loggers import LOG
from ...comm.rendezvous.rendezvous import Rendezvous
from ...compiler.onnx_graph.external import external_array
from ..cache.build_cache import Build
from ..executors.base import Executor, JoiningExecutor, PartRunnable, Runnable, joining
from ..image_layout.image_rows import ImageRows, block_of
from ..image_layout.joined_segment import joined_segment
from ..image_layout.layout_offer import LayoutOffer, agreed_steps, layout_offer
from ..image_layout.optimized_parts import OptimizedParts
from ..partition.plan import CollectiveStep, Plan, Segment, Step

_ENCODE = msgspec.msgpack.Encoder().encode
_DONE, _FAILED = b"done", b"failed"
_Made = TypeVar("_Made")


class OptimizedModel(NamedTuple):
    """The optimized joined segment, and its file, which has the weights beside it."""

    model: ModelProto
    place: str
    executor: JoiningExecutor


def joined_build(build: Build, executor: Executor, rendezvous: Rendezvous) -> Build:
    """The build with joined segments, or the same one where these gain nothing or cannot be had.

    All ranks of the job call this. They agree on the collectives that move images in the layout.
    Where one of them then fails, all take the same build.
    """
    with ExitStack() as folders:
        found = _tried(build, lambda: _optimized(build, executor, folders))
        mine = layout_offer(found.model.graph, build.plan) if found else LayoutOffer()
        offers = decode_payloads(rendezvous.exchange(_ENCODE(mine)), LayoutOffer)
        agreed = agreed_steps(build.plan, rendezvous.rank.rank, offers)
        made = _tried(build, lambda: _parted(build, found, agreed)) if found else None
    if any(call.offered for one in offers for call in one.calls):
        state = _FAILED if agreed and not made else _DONE
        if _FAILED in rendezvous.exchange(state):
            return build
    return made or build


def _tried(build: Build, make: Callable[[], _Made]) -> _Made | None:
    """The result of `make`; None and a warning where it fails."""
    try:
        return make()
    except (ModelError, UsageError, OSError) as error:
        LOG.warning("%s: its segments are optimized one by one: %s", build.plan.path, error)
        return None


def _optimized(build: Build, executor: Executor, folders: ExitStack) -> OptimizedModel | None:
    """The model from the cache, or one that is saved until the folders are closed: weights then
    stay mapped.
    """
    joiner = joining(executor)
    segment = None if joiner is None or build.memory else joined_segment(build.plan)
    if joiner is None or segment is None:
        return None
    place = build.joined
    if not place:
        folder = PrivateFolder("layouts")
        folders.callback(folder.close)
        place = str(folder.path / "joined.onnx")
        joiner.save(segment, build.plan.folder, place)
    try:
        model = onnx.load(place, load_external_data=False)
    except DecodeError as error:
        raise ModelError(f"{place} is damaged: {error}.") from error
    if block_of(model.graph):
        ImageRows(model.graph, block_of(model.graph), {}).rewrite()
    return OptimizedModel(model, place, joiner)


def _parted(build: Build, found: OptimizedModel, agreed: Sequence[CollectiveStep]) -> Build:
    """The build whose segments are parts of the model; the collectives `agreed` move images in the
    layout.
    """
    plan = _in_layout(build.plan, found.model, agreed)
    parts = OptimizedParts(plan, found.model)
    types = {**plan.types, **{one.value: one.type for one in plan.inputs}}
    steps: list[Step] = []
    loaded: dict[int, PartRunnable] = {}
    for step in parts.steps:
        if isinstance(step, int):
            segment = parts.segment(step, types)
            runnable = found.executor.load_part(segment, found.place)
            types.update({k: v for k, v in runnable.output_types().items() if k not in types})
            loaded[id(segment)] = runnable
            steps.append(segment)
        else:
            steps.append(step)
    constants = {**_held(parts.folded, found.place), **plan.constants}
    run = msgspec.structs.replace(plan, steps=tuple(steps), types=types, constants=constants)

    def load(segment: Segment) -> Runnable:
        build.check()
        return loaded[id(segment)]

    return build._replace(run=run, load=load)


def _held(tensors: Mapping[str, TensorProto], place: str) -> dict[str, TensorProto]:
    """Tensors of the file at `place`, whose data may lie beside it, with data of their own."""
    folder = os.path.dirname(place)
    return {
        name: numpy_helper.from_array(external_array(tensor, folder), name)
        if tensor.data_location == TensorProto.EXTERNAL
        else tensor
        for name, tensor in tensors.items()
    }


def _in_layout(plan: Plan, model: ModelProto, agreed: Sequence[CollectiveStep]) -> Plan:
    """The plan whose collectives `agreed` take and give images in the layout, as the model does."""
    results = {one.outputs[0]: plan.types[one.outputs[0]].shape or () for one in agreed}
    if not results:
        return plan
    images = ImageRows(model.graph, block_of(model.graph), results).rewrite()
    steps, types = list(plan.steps), dict(plan.types)
    for index, step in enumerate(steps):
        if isinstance(step, CollectiveStep) and not results.keys().isdisjoint(step.outputs):
            image = images[step.inputs[0]].name
            types[image] = plan.types[step.inputs[0]]
            steps[index] = msgspec.structs.replace(step, inputs=(image,))
    return msgspec.structs.replace(plan, steps=tuple(steps), types=types)
