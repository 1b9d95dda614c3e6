"""Loops: recursion at the end of a function, MindSpore's form of them, as ONNX Loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from onnx import NodeProto

from ...element_types.value_types import ScalarType, TensorType, ValueType
from ..builder import BOOL, INT64, Builder, OnnxTensor, Value
from .exits import CHANGING_TUPLES, Exits, anything_like
from .trees import as_tensor, identical, leaf_types, leaves, outline, rebuilt

Trace = Callable[[Value], Exits]


@dataclass(slots=True)
class _Carried:
    """Tensors that an ONNX Loop carries: at the start, inside a round, and at a round's end."""

    starts: list[OnnxTensor] = field(default_factory=list)
    inside: list[OnnxTensor] = field(default_factory=list)
    ends: list[OnnxTensor] = field(default_factory=list)

    def add(self, start: OnnxTensor, inside: OnnxTensor, end: OnnxTensor) -> None:
        """Carry one more tensor."""
        self.starts.append(start)
        self.inside.append(inside)
        self.ends.append(end)


class LoopLowering:
    """One loop while it is lowered: `entry` is the payload that the loop's header starts with.

    Values that the header gets back unchanged stay outer values; the others become loop-carried.
    The body is lowered with ever more values taken as changing, until no further one changes.
    Values that start as one and change as one stay one.
    """

    def __init__(
        self,
        b: Builder,
        header: str,
        numbers: Mapping[str, int],
        entry: Value,
        kind: ValueType | None,
    ) -> None:
        self._b = b
        self._header = header
        self._numbers = numbers
        self._entry = entry
        self._initial = leaves(entry)
        self._kinds = leaf_types(entry, kind)
        self._changing: list[list[int]] = []  # leaves; those that change together side by side
        self._states: list[OnnxTensor] = []
        self._nodes: list[NodeProto] = []
        self._label_counts = dict(b.label_counts)

    def run(self, trace: Trace) -> Exits:
        """The exits of the loop. `trace` lowers the header's function for a payload."""
        exits = self._traced(trace)
        while self._header in exits.options and self._refine(leaves(self._back(exits))):
            exits = self._traced(trace)
        if self._header not in exits.options:
            if self._changing:
                raise ValueError("is a loop in its first round only, which is not supported")
            self._b.extend(self._nodes)
            return exits
        if len(exits.options) == 1:
            raise ValueError("is a loop that never ends")
        return self._closed(exits)

    def _traced(self, trace: Trace) -> Exits:
        self._states = [self._state(group[0]) for group in self._changing]
        bound = list(self._initial)
        for group, state in zip(self._changing, self._states, strict=True):
            for index in group:
                bound[index] = state
        self._nodes = []
        self._b.label_counts = dict(self._label_counts)
        with self._b.inside(self._nodes):
            return trace(rebuilt(self._entry, iter(bound)))

    def _state(self, index: int) -> OnnxTensor:
        kind, name = self._kinds[index], self._b.fresh("state")
        if isinstance(kind, ScalarType):
            return OnnxTensor(name, kind.dtype, (), scalar=True)
        if isinstance(kind, TensorType):
            return OnnxTensor(name, kind.dtype, kind.shape)
        tensor = as_tensor(self._b, self._initial[index], None)
        return OnnxTensor(name, tensor.dtype, None if tensor.shape != () else (), tensor.scalar)

    def _back(self, exits: Exits) -> Value:
        payload = exits.options[self._header]
        if outline(payload) != outline(self._entry):
            raise ValueError(CHANGING_TUPLES)
        return payload

    def _refine(self, back: Sequence[Value]) -> bool:
        """Take apart the leaves that no longer change together; False where there are none."""
        known = {index for group in self._changing for index in group}
        fresh = [
            index
            for index, leaf in enumerate(back)
            if index not in known and not identical(leaf, self._initial[index])
        ]
        started = (*self._changing, *self._same(self._initial, fresh))
        groups = [part for group in started for part in self._same(back, group)]
        changed = groups != self._changing
        self._changing = groups
        return changed

    def _same(self, values: Sequence[Value], group: Sequence[int]) -> list[list[int]]:
        """A group in parts of identical values of one type."""
        parts: list[list[int]] = []
        for index in group:
            for part in parts:
                same_type = self._kinds[index] == self._kinds[part[0]]
                if same_type and identical(values[index], values[part[0]]):
                    part.append(index)
                    break
            else:
                parts.append([index])
        return parts

    def _closed(self, exits: Exits) -> Exits:
        """The Loop node, and its exits in terms of its results."""
        assert isinstance(exits.taken, OnnxTensor)  # there are several options
        options = {name: value for name, value in exits.options.items() if name != self._header}
        with self._b.inside(self._nodes):
            number = self._numbers[self._header]
            again = self._b.op("Equal", exits.taken, number, type=TensorType(BOOL, ()))
            back = leaves(exits.options[self._header])
            ends = [self._leaf_tensor(back, group[0]) for group in self._changing]
        starts = [self._leaf_tensor(self._initial, group[0]) for group in self._changing]
        carried = _Carried(starts, list(self._states), ends)
        self._carry_out(options, carried)
        if len(options) > 1:
            unset = OnnxTensor(self._b.fresh("unset"), INT64, ())
            carried.add(self._b.tensor(0), unset, exits.taken)
        results = self._loop(again, carried)
        count = len(self._states)
        names = (*(s.name for s in self._states), *(end.name for end in carried.ends[count:]))
        after = dict(zip(names, results, strict=True))
        taken = results[-1] if len(options) > 1 else self._numbers[next(iter(options))]
        return Exits({name: _renamed(value, after) for name, value in options.items()}, taken)

    def _leaf_tensor(self, values: Sequence[Value], index: int) -> OnnxTensor:
        return as_tensor(self._b, values[index], self._kinds[index])

    def _carry_out(self, options: Mapping[str, Value], carried: _Carried) -> None:
        """Carry the tensors that a round makes for what follows the loop."""
        names = {name for node in self._nodes for name in node.output}
        found = [leaf for payload in options.values() for leaf in leaves(payload)]
        made = {x.name: x for x in found if isinstance(x, OnnxTensor) and x.name in names}
        for tensor in made.values():
            start = anything_like(self._b, tensor, None)
            carried.add(start, replace(tensor, name=self._b.fresh("unset")), tensor)

    def _loop(self, again: OnnxTensor, carried: _Carried) -> list[OnnxTensor]:
        iteration = OnnxTensor(self._b.fresh("iteration"), INT64, ())
        inputs = [iteration, OnnxTensor(self._b.fresh("condition"), BOOL, ()), *carried.inside]
        inputs = [
            replace(one, shape=None) if one.name.startswith("unset") else one for one in inputs
        ]
        body = self._b.body("loop", self._nodes, inputs, [again, *carried.ends])
        results = [
            OnnxTensor(self._b.fresh("Loop"), end.dtype, one.shape, one.scalar)
            for one, end in zip(carried.inside, carried.ends, strict=True)
        ]
        self._b.control("Loop", [None, self._b.tensor(True), *carried.starts], results, body=body)
        return results


def _renamed(payload: Value, results: Mapping[str, OnnxTensor]) -> Value:
    """A payload with the loop's results in place of the tensors inside its body."""
    fresh = [results.get(x.name, x) if isinstance(x, OnnxTensor) else x for x in leaves(payload)]
    return rebuilt(payload, iter(fresh))
