"""A plan whose weights lie in memory instead of its files: which tensors they are, and where their bytes come from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, numpy_helper

from ...comm.errors import ModelError
from .. import dtypes
from ..external import external_place, lies_in
from ..mindir.graph import TensorType
from ..plan import Block, Branch, Plan, Repeat, Segment, Step
from ..segment_model import with_initializers

Array = NDArray[Any]
_SMALLEST = 1024
"""Bytes from which a tensor that an ONNX file holds itself counts as a weight."""

_FOLDER = "live weights"


def weights_of(plan: Plan) -> dict[str, TensorProto]:
    """The weights of a plan by name: initializers outside the model's file, and large ones in it. States are none."""
    held = [tensor for segment in plan.segments for tensor in segment.model.graph.initializer]
    return {tensor.name: tensor for tensor in (*held, *plan.constants.values()) if _is_weight(tensor)}


def type_of(tensor: TensorProto) -> TensorType:
    """The type of a weight."""
    return TensorType(dtypes.from_onnx(tensor.data_type), tuple(tensor.dims))


def with_live_weights(plan: Plan, names: Mapping[str, Any]) -> Plan:
    """The plan with the weights of `names` in memory, at `location_of` their names."""
    return msgspec.structs.replace(plan, steps=tuple(_step(step, names) for step in plan.steps),
                                   constants={name: _record(tensor, names) for name, tensor in plan.constants.items()})


def location_of(name: str) -> str:
    """Where the plan says that a live weight lies."""
    return f"{_FOLDER}/{name}"


class WeightReader:
    """Reads weights of a plan: from the model's files, its plain text in `memory`, or the model itself."""

    def __init__(self, plan: Plan, memory: Mapping[str, memoryview]) -> None:
        self._plan, self._memory = plan, memory
        self._files: dict[str, int] = {}

    def __enter__(self) -> WeightReader:
        return self

    def __exit__(self, *_: object) -> None:
        for fd in self._files.values():
            os.close(fd)

    def into(self, tensor: TensorProto, target: Array) -> None:
        """Read a whole weight into `target`, straight from the file where it lies in one."""
        raw = target.reshape(-1).view(np.uint8)
        if tensor.data_location != TensorProto.EXTERNAL or lies_in(self._memory, tensor):
            np.copyto(raw, np.frombuffer(self.part(tensor, 0, raw.size), np.uint8))
            return
        location, at = external_place(tensor)
        view, done = raw.data, 0
        while done < len(view):
            count = os.preadv(self._file(location), [view[done:]], at + done)
            if not count:
                raise ModelError(f"{self._plan.folder}/{location}: ends before the weight '{tensor.name}': copy it "
                                 f"again, whole.")
            done += count

    def part(self, tensor: TensorProto, start: int, size: int) -> bytes | memoryview:
        """Some bytes of a weight."""
        if tensor.data_location != TensorProto.EXTERNAL:
            return numpy_helper.to_array(tensor).reshape(-1).view(np.uint8).data[start:start + size]
        location, at = external_place(tensor)
        if lies_in(self._memory, tensor):
            return self._memory[location][at + start:at + start + size]
        return os.pread(self._file(location), size, at + start)

    def _file(self, location: str) -> int:
        if location not in self._files:
            self._files[location] = os.open(os.path.join(self._plan.folder, location), os.O_RDONLY | os.O_CLOEXEC)
        return self._files[location]


def _is_weight(tensor: TensorProto) -> bool:
    try:
        dtypes.from_onnx(tensor.data_type)
    except ValueError:  # texts and packed numbers stay as they are
        return False
    if tensor.data_location == TensorProto.EXTERNAL:
        return True
    size = int(np.prod(tensor.dims, dtype=np.int64)) * dtypes.from_onnx(tensor.data_type).itemsize
    return size >= _SMALLEST


def _step(step: Step, names: Mapping[str, Any]) -> Step:
    if isinstance(step, Segment):
        return msgspec.structs.replace(step, model=_model(step.model, names))
    if isinstance(step, Branch):
        return msgspec.structs.replace(step, yes=_block(step.yes, names), no=_block(step.no, names))
    if isinstance(step, Repeat):
        return msgspec.structs.replace(step, body=_block(step.body, names))
    return step


def _block(block: Block, names: Mapping[str, Any]) -> Block:
    return msgspec.structs.replace(block, steps=tuple(_step(step, names) for step in block.steps))


def _model(model: ModelProto, names: Mapping[str, Any]) -> ModelProto:
    return with_initializers(model, (_record(tensor, names) for tensor in model.graph.initializer))


def _record(tensor: TensorProto, names: Mapping[str, Any]) -> TensorProto:
    if tensor.name not in names or not _is_weight(tensor):
        return tensor
    record = TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims,
                         data_location=TensorProto.EXTERNAL)
    size = int(np.prod(tensor.dims, dtype=np.int64)) * dtypes.from_onnx(tensor.data_type).itemsize
    for key, text in (("location", location_of(tensor.name)), ("offset", 0), ("length", size)):
        record.external_data.add(key=key, value=str(text))
    return record
