"""Weights of a plan: lists them, reads and hashes them, and has them lie in memory instead of
files.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator, Mapping

import msgspec
import numpy as np
from onnx import TensorProto, numpy_helper

from ...comm.arrays import Array
from ...comm.errors import ModelError
from ...compiler.element_types import dtypes
from ...compiler.onnx_graph.external import external_place, lies_in, set_entries
from ...compiler.onnx_graph.segment_model import with_initializers
from ..partition.plan import Block, BranchStep, LoopStep, Plan, Segment, Step, encode_plan
from .store import WeightType


def weights_of(plan: Plan) -> dict[str, TensorProto]:
    """The weights of a plan by name: initializers outside the model's file, and large ones in it.

    States are not weights.
    """
    held = [tensor for segment in plan.segments for tensor in segment.model.graph.initializer]
    return {
        tensor.name: tensor for tensor in (*held, *plan.constants.values()) if _is_weight(tensor)
    }


def type_of(tensor: TensorProto) -> WeightType:
    """The type of a weight."""
    return WeightType(dtypes.from_onnx(tensor.data_type), tuple(tensor.dims))


def with_live_weights(plan: Plan, names: Collection[str]) -> Plan:
    """The plan with the weights of `names` in memory, at `location_of` their names."""
    return msgspec.structs.replace(
        plan,
        steps=tuple(_step(step, names) for step in plan.steps),
        constants={name: _record(tensor, names) for name, tensor in plan.constants.items()},
    )


def location_of(name: str) -> str:
    """Where the plan says that a live weight lies."""
    return f"live weights/{name}"


class WeightReader:
    """Reads weights of a plan: from the model's files, its plain text in `memory`, or the model
    itself.
    """

    def __init__(self, plan: Plan, memory: Mapping[str, memoryview]) -> None:
        self._plan = plan
        self._memory = memory
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
                raise ModelError(
                    f"{self._plan.folder}/{location}: ends before the weight '{tensor.name}': copy "
                    "it again, whole."
                )
            done += count

    def part(self, tensor: TensorProto, start: int, size: int) -> bytes | memoryview:
        """`size` bytes of a weight, from `start` on."""
        if tensor.data_location != TensorProto.EXTERNAL:
            return (
                numpy_helper.to_array(tensor).reshape(-1).view(np.uint8).data[start : start + size]
            )
        location, at = external_place(tensor)
        if lies_in(self._memory, tensor):
            return self._memory[location][at + start : at + start + size]
        return os.pread(self._file(location), size, at + start)

    def _file(self, location: str) -> int:
        if location not in self._files:
            self._files[location] = os.open(
                os.path.join(self._plan.folder, location), os.O_RDONLY | os.O_CLOEXEC
            )
        return self._files[location]


def _is_weight(tensor: TensorProto) -> bool:
    try:
        dtypes.from_onnx(tensor.data_type)
    except ValueError:  # texts and packed numbers stay as they are
        return False
    # bytes from which a tensor that an ONNX file holds itself counts as a weight
    return tensor.data_location == TensorProto.EXTERNAL or type_of(tensor).nbytes >= 1024


def _step(step: Step, names: Collection[str]) -> Step:
    if isinstance(step, Segment):
        records = (_record(tensor, names) for tensor in step.model.graph.initializer)
        return msgspec.structs.replace(step, model=with_initializers(step.model, records))
    if isinstance(step, BranchStep):
        return msgspec.structs.replace(step, yes=_block(step.yes, names), no=_block(step.no, names))
    if isinstance(step, LoopStep):
        return msgspec.structs.replace(step, body=_block(step.body, names))
    return step


def _block(block: Block, names: Collection[str]) -> Block:
    return msgspec.structs.replace(block, steps=tuple(_step(step, names) for step in block.steps))


def _record(tensor: TensorProto, names: Collection[str]) -> TensorProto:
    if tensor.name not in names or not _is_weight(tensor):
        return tensor
    record = TensorProto(
        name=tensor.name,
        data_type=tensor.data_type,
        dims=tensor.dims,
        data_location=TensorProto.EXTERNAL,
    )
    size = type_of(tensor).nbytes
    set_entries(record, {"location": location_of(tensor.name), "offset": 0, "length": size})
    return record


_WHOLE = 1 << 20
"""Bytes up to which a tensor is hashed whole."""

_SAMPLES, _SAMPLE = 64, 4096
"""How many places, and how many bytes at each, are hashed of larger ones."""


def model_identity(plan: Plan, weights: Mapping[str, bytes], reader: WeightReader) -> str:
    """The hash (BLAKE2b, hex) of a plan whose live weights have the digests `weights`, whatever its
    files are called.

    It takes milliseconds, as users are to build in milliseconds: of a tensor above 1 MiB, 64 pieces
    of 4 KiB spread over it are hashed. That tells any two models that were trained apart; it is a
    check against mistakes, not against forgery, which the whitelist is for.
    """
    bare = msgspec.structs.replace(plan, path="", folder="", states=())
    total = hashlib.blake2b(encode_plan(bare), digest_size=20)
    states = [(state.initial.name, _digest(state.initial, reader)) for state in plan.states]
    for name, digest in (*sorted(weights.items()), *states):
        total.update(name.encode())
        total.update(digest)
    return total.hexdigest()


def content_digests(weights: Mapping[str, TensorProto], reader: WeightReader) -> dict[str, bytes]:
    """The hash of each weight's type and contents."""
    return {name: _digest(tensor, reader) for name, tensor in weights.items()}


def _digest(tensor: TensorProto, reader: WeightReader) -> bytes:
    kind = type_of(tensor)
    digest = hashlib.blake2b(f"{kind.dtype} {kind.shape}".encode(), digest_size=20)
    for start, length in _pieces(kind.nbytes):
        digest.update(reader.part(tensor, start, length))
    return digest.digest()


def _pieces(size: int) -> Iterator[tuple[int, int]]:
    if size <= _WHOLE:
        yield 0, size
        return
    for number in range(_SAMPLES):
        yield number * (size - _SAMPLE) // (_SAMPLES - 1), _SAMPLE
