"""Kept builds: an entry's plan, and its segments as their executor saved them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from onnx import TensorProto

from ...comm.errors import ModelError
from ...compiler.mindir.paths import base_folder
from ...compiler.onnx_graph.external import location
from ...compiler.onnx_graph.onnx_values import tensors
from ..executors.base import Executor, Runnable, joining
from ..image_layout.joined_segment import joined_segment
from ..partition.plan import Plan, Segment, decode_plan, encode_plan
from .identity import ModelIdentity

_PLAN = "plan.msgpack"
_JOINED = "joined.onnx"


class KeptBuild:
    """An entry of the cache: its plan, and sessions for the plan's segments."""

    def __init__(
        self, folder: Path, model_path: str, identity: ModelIdentity, discard: Callable[[], object]
    ) -> None:
        """Read the plan for the model at `model_path`; ModelError where the entry cannot be read.

        `identity` is what the model's files were when the entry was looked for; `discard`
        takes the entry away, so that a build after this one keeps a good one.
        """
        try:
            plan = decode_plan((folder / _PLAN).read_bytes())
        except (OSError, msgspec.DecodeError) as error:
            raise ModelError(
                f"{folder}: this entry of the model cache cannot be read: {error}."
            ) from error
        _follow(plan, model_path)
        self.plan = msgspec.structs.replace(plan, path=model_path, folder=base_folder(model_path))
        self._identity = identity
        self._places = {
            id(segment): folder / _segment_file(i) for i, segment in enumerate(self.plan.segments)
        }
        self._discard = discard
        self.joined = str(folder / _JOINED) if (folder / _JOINED).exists() else ""
        """The joined segment's file, which takes the place of those of segments."""

    def load(self, segment: Segment, executor: Executor) -> Runnable:
        """The session of a segment of the plan; from the model's own file where the saved one
        cannot be had.

        ModelError where a file has changed since the entry was found, as other weights are read
        from the files.
        """
        try:
            loaded = executor.load(segment, str(self._places[id(segment)]))
        except ModelError:  # evicted since, or damaged inside
            self._discard()
            loaded = executor.prepare(segment, self.plan.folder)
        self.check()
        return loaded

    def check(self) -> None:
        """Raise ModelError where a file of the model has changed since the entry was found."""
        if not self._identity.holds:
            raise ModelError("a file of the model has changed while it was opened: open it again.")


def write_entry(folder: Path, plan: Plan, executor: Executor) -> None:
    """Fill a new entry; raises what Executor.save does."""
    joined = joined_segment(plan) if joining(executor) else None
    if joined:
        executor.save(joined, plan.folder, str(folder / _JOINED))
    else:
        for index, segment in enumerate(plan.segments):
            executor.save(segment, plan.folder, str(folder / _segment_file(index)))
    (folder / _PLAN).write_bytes(encode_plan(plan))


def model_files(plan: Plan) -> list[str]:
    """The model's own file, and those in which the weights of its plan lie."""
    names = {name for name in map(location, _held(plan)) if name}
    return [plan.path, *(os.path.join(plan.folder, name) for name in sorted(names))]


def _held(plan: Plan) -> Iterator[TensorProto]:
    """All weights and constants of a plan."""
    yield from (tensor for segment in plan.segments for tensor in tensors(segment.model.graph))
    yield from plan.constants.values()
    yield from (state.initial for state in plan.states)


def _follow(plan: Plan, path: str) -> None:
    """Let the plan read the weights of the model's own file from its copy at `path`.

    A link has them elsewhere, and at the same place as the one that was kept.
    """
    kept, name = os.path.basename(plan.path), os.path.basename(path)
    for tensor in _held(plan) if name != kept and not os.path.islink(path) else ():
        for entry in tensor.external_data:
            if (entry.key, entry.value) == ("location", kept):
                entry.value = name


def _segment_file(index: int) -> str:
    return f"segment_{index}.onnx"
