"""The activation arena: one allocation, planned once, for every value that passes between steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..comm.collectives.base import Kind
from .mindir.graph import TensorType
from .plan import Exchange, Plan, Segment

_ALIGN = 64
_SMALL = 16384  # bytes
_IN_PLACE = {Kind.ALL_REDUCE, Kind.BROADCAST}
Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A buffer's size in bytes and the first and last step that touch it."""

    size: int
    first: int
    last: int


def allocate(plan: Plan) -> dict[str, Array]:
    """An array for every intermediate value of known shape, all of them slices of one block.

    Values that never live at the same time share memory; the result of an AllReduce takes the memory of an
    operand that nothing reads afterwards. Inputs, outputs, states, values of unknown shape and what branches and loops
    make are not included.
    """
    owners = _owners(plan)
    lifetimes = _lifetimes(plan, owners)
    offsets = pack(lifetimes)
    total = max((offsets[n] + lifetimes[n].size for n in offsets), default=0)
    block = np.zeros(total + _ALIGN, np.uint8)
    start = -block.__array_interface__["data"][0] % _ALIGN
    found = {}
    for name, owner in owners.items():
        kind = plan.types[name]
        assert kind.shape is not None
        at, size = start + offsets[owner], prod(kind.shape) * kind.dtype.itemsize
        found[name] = block[at:at + size].view(kind.dtype).reshape(kind.shape)
    return found


def small_outputs(plan: Plan) -> dict[str, Array]:
    """A buffer for every small output: it is bound once, and copying it costs less than binding new memory."""
    made = {name for step in plan.steps if isinstance(step, (Segment, Exchange)) for name in step.outputs}
    return {s.value: np.empty(s.type.shape or (), s.type.dtype) for s in plan.outputs
            if s.value in made and small(s.type)}


def small(kind: TensorType) -> bool:
    """Whether an input or output of a request is copied rather than bound anew to onnxruntime (about 6 us)."""
    shape = kind.shape
    return shape is not None and min(shape, default=0) >= 0 and prod(shape) * kind.dtype.itemsize <= _SMALL


def pack(lifetimes: Mapping[str, Lifetime]) -> dict[str, int]:
    """Offsets at which buffers that live together never overlap: largest first, lowest gap that fits."""
    placed: list[tuple[int, Lifetime]] = []
    offsets: dict[str, int] = {}
    for name, life in sorted(lifetimes.items(), key=lambda item: -item[1].size):
        at = 0
        for offset, other in sorted(placed, key=lambda item: item[0]):
            together = life.first <= other.last and other.first <= life.last
            if together and at + life.size > offset:
                at = max(at, _aligned(offset + other.size))
        offsets[name] = at
        placed.append((at, life))
    return offsets


def _aligned(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN


def _static(plan: Plan, name: str) -> bool:
    shape = plan.types[name].shape
    return shape is not None and all(dim >= 0 for dim in shape)


def _owners(plan: Plan) -> dict[str, str]:
    """Each intermediate value of known shape, and the value whose memory it uses (its own, or an operand's)."""
    given = {s.value for s in (*plan.inputs, *plan.outputs)} | set(plan.constants)
    given.update(name for state in plan.states for name in (state.value, state.result))
    last = _last_reads(plan)
    owners: dict[str, str] = {}
    for index, step in enumerate(plan.steps):
        if not isinstance(step, (Segment, Exchange)):  # what these make may be what they took
            continue
        for position, name in enumerate(step.outputs):
            if name in given or not _static(plan, name):
                continue
            operand = _operand(step, position)
            shared = operand in owners and last[operand] == index and plan.types[operand] == plan.types[name]
            owners[name] = owners[operand] if operand is not None and shared else name
    return owners


def _operand(step: object, position: int) -> str | None:
    """The value over which a step may write its output at `position`."""
    if isinstance(step, Exchange) and step.call.kind in _IN_PLACE and len(set(step.inputs)) == len(step.inputs):
        return step.inputs[position]
    return None


def _last_reads(plan: Plan) -> dict[str | None, int]:
    return {name: index for index, step in enumerate(plan.steps) for name in step.inputs}


def _lifetimes(plan: Plan, owners: Mapping[str, str]) -> dict[str, Lifetime]:
    spans: dict[str, list[int]] = {}
    for index, step in enumerate(plan.steps):
        for name in _touched(step.inputs, step.outputs):
            if name in owners:
                spans.setdefault(owners[name], []).append(index)
    return {name: Lifetime(_size(plan, name), min(span), max(span)) for name, span in spans.items()}


def _touched(inputs: Sequence[str], outputs: Sequence[str]) -> tuple[str, ...]:
    return (*inputs, *outputs)


def _size(plan: Plan, name: str) -> int:
    kind = plan.types[name]
    assert kind.shape is not None
    return prod(kind.shape) * kind.dtype.itemsize
