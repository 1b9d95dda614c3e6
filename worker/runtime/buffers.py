"""Activation buffers: one allocation, planned once, for every value that passes between steps."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from ...comm.arrays import Array
from ...comm.collective_call import Kind
from ...comm.host.resources import memory_limit
from ...compiler.element_types.value_types import TensorType
from ..partition.plan import CollectiveStep, Plan, Segment

_ALIGN = 64
_SMALL = 16384  # bytes
_USUAL = 1 << 30
"""Bytes that every host has: to ask for the limit reads files."""
_IN_PLACE = {Kind.ALL_REDUCE, Kind.BROADCAST}


@dataclass(frozen=True, slots=True)
class BufferLifetime:
    """A buffer's size in bytes and the first and last step that touch it."""

    size: int
    first: int
    last: int


def allocate(plan: Plan, elsewhere: Collection[str] = ()) -> dict[str, Array]:
    """An array for every intermediate value of known shape, all of them slices of one block.

    Values that never live at the same time share memory; the result of an AllReduce takes the
    memory of an operand that nothing reads afterwards. Inputs, outputs, states, values of unknown
    shape, values that lie `elsewhere`, and what branches and loops make are not included.
    """
    owners = _owners(plan, elsewhere)
    lifetimes = _lifetimes(plan, owners)
    offsets = pack(lifetimes)
    total = max((offsets[n] + lifetimes[n].size for n in offsets), default=0)
    block = np.zeros(total + _ALIGN, np.uint8)
    start = -block.__array_interface__["data"][0] % _ALIGN
    found = {}
    for name, owner in owners.items():
        kind = plan.types[name]
        at = start + offsets[owner]
        found[name] = block[at : at + kind.nbytes].view(kind.dtype).reshape(kind.shape or ())
    return found


def small_outputs(plan: Plan) -> dict[str, Array]:
    """A buffer for every small output: it is bound once, and copying it costs less than binding new
    memory.
    """
    made = {
        name
        for step in plan.steps
        if isinstance(step, (Segment, CollectiveStep))
        for name in step.outputs
    }
    return {
        s.value: np.empty(s.type.shape or (), s.type.dtype)
        for s in plan.outputs
        if s.value in made and small(s.type)
    }


def small(kind: TensorType) -> bool:
    """Whether an input or output of a request is copied rather than bound anew to onnxruntime
    (about 6 us).
    """
    return kind.known and kind.nbytes <= _SMALL


def has_room(kind: TensorType) -> bool:
    """Whether there is an array for a value before it is computed: its shape is declared, and not
    so wrong that this host has no memory for it.
    """
    return kind.known and (kind.nbytes <= _USUAL or kind.nbytes <= memory_limit().size)


def pack(lifetimes: Mapping[str, BufferLifetime]) -> dict[str, int]:
    """Offsets at which buffers that live together never overlap: largest first, lowest gap that
    fits.
    """
    placed: list[tuple[int, BufferLifetime]] = []
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


def _owners(plan: Plan, elsewhere: Collection[str]) -> dict[str, str]:
    """Each intermediate value of known shape, and the value whose memory it uses (its own, or an
    operand's).
    """
    given = {s.value for s in (*plan.inputs, *plan.outputs)} | {*plan.constants, *elsewhere}
    given.update(name for state in plan.states for name in (state.value, state.result))
    last = {name: index for index, step in enumerate(plan.steps) for name in step.inputs}
    owners: dict[str, str] = {}
    for index, step in enumerate(plan.steps):
        if not isinstance(
            step, (Segment, CollectiveStep)
        ):  # their results may be the arrays that they took
            continue
        for position, name in enumerate(step.outputs):
            if name in given or not has_room(plan.types[name]):
                continue
            operand = _operand(step, position)
            shared = (
                operand in owners
                and last[operand] == index
                and plan.types[operand] == plan.types[name]
            )
            owners[name] = owners[operand] if operand is not None and shared else name
    return owners


def _operand(step: object, position: int) -> str | None:
    """The value over which a step may write its output at `position`."""
    if (
        isinstance(step, CollectiveStep)
        and step.call.kind in _IN_PLACE
        and len(set(step.inputs)) == len(step.inputs)
    ):
        return step.inputs[position]
    return None


def _lifetimes(plan: Plan, owners: Mapping[str, str]) -> dict[str, BufferLifetime]:
    spans: dict[str, list[int]] = {}
    for index, step in enumerate(plan.steps):
        for name in (*step.inputs, *step.outputs):
            if name in owners:
                spans.setdefault(owners[name], []).append(index)
    return {
        name: BufferLifetime(plan.types[name].nbytes, min(span), max(span))
        for name, span in spans.items()
    }


class StateSlot:
    """One state: the array that holds it, and a second one that the next value is written to, made
    when it is needed.

    The first array is the file's own, read-only: it is never written to.
    """

    def __init__(self, initial: Array) -> None:
        self.now = initial
        self._spare: Array | None = None

    @property
    def spare(self) -> Array:
        """Room for the next value."""
        if self._spare is None or self._spare.shape != self.now.shape:
            self._spare = np.empty_like(self.now, order="C", subok=False)
        return self._spare

    def keep(self, array: Array) -> None:
        """Take `array`, which may be the spare room itself, as the value from now on."""
        if array is not self._spare and array.shape != self.now.shape:
            self.now = array.copy()
            self._spare = None
            return
        if array is not self._spare:
            np.copyto(self.spare, array)
        self.now, self._spare = self.spare, (self.now if self.now.flags.writeable else None)


class States:
    """All states of one program, with the plan's names of the values before and after a request."""

    def __init__(self, slots: Mapping[str, StateSlot], results: Mapping[str, str]) -> None:
        self._slots = slots
        self._results = results

    def found(self) -> dict[str, Array]:
        """The values that the next request finds, by name."""
        return {name: slot.now for name, slot in self._slots.items()} if self._slots else {}

    def keep(self, values: Mapping[str, Array]) -> None:
        """Keep the new values of the states among the `values` of a request."""
        if not self._slots:
            return
        for slot, array in [
            (slot, values[self._results[name]]) for name, slot in self._slots.items()
        ]:
            slot.keep(array)

    def take_from(self, other: States) -> None:
        """Take over the values of another program of the same model."""
        for name, slot in self._slots.items():
            if name in other._slots:
                slot.keep(other._slots[name].now)

    def room(self) -> dict[str, StateSlot]:
        """The slots by the name of the value that they are to hold next, of those that only one
        state takes.
        """
        names = list(self._results.values())
        return {
            result: self._slots[name]
            for name, result in self._results.items()
            if names.count(result) == 1
        }
