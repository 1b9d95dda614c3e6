"""Recursion at a function's end, which is how MindSpore writes loops, as ONNX Loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from onnx import NodeProto

from ..mindir.graph import ScalarType, TensorType, ValueType
from .builder import Builder, Tensor, Value
from .exits import CHANGING, Exits, anything
from .trees import as_tensor, identical, leaf_types, leaves, outline, rebuilt

_BOOL, _INT64 = np.dtype(np.bool_), np.dtype(np.int64)
Trace = Callable[[Value], Exits]


class Loop:
    """One loop while it is being lowered: `entry` is the payload that the loop's header starts with.

    What the header gets back unchanged stays an outer value; what changes becomes a loop-carried one. Which is which
    shows when the body is lowered, with ever more values taken as changing until none is left that does. Values that
    start as one and change as one stay one.
    """

    def __init__(self, b: Builder, header: str, numbers: Mapping[str, int], entry: Value,
                 kind: ValueType | None) -> None:
        self.b, self.header, self.numbers, self.entry = b, header, numbers, entry
        self.initial = leaves(entry)
        self.kinds = leaf_types(entry, kind)
        self.changing: list[list[int]] = []  # leaves, those that change together side by side
        self.states: list[Tensor] = []
        self.nodes: list[NodeProto] = []
        self.labels = dict(b.labels)

    def run(self, trace: Trace) -> Exits:
        """The ways out of the loop. `trace` lowers the header's function for a payload."""
        exits = self._traced(trace)
        while self.header in exits.options and self._refine(leaves(self._back(exits))):
            exits = self._traced(trace)
        if self.header not in exits.options:
            if self.changing:
                raise ValueError("is a loop in its first round only, which is not supported")
            self.b.extend(self.nodes)
            return exits
        if len(exits.options) == 1:
            raise ValueError("is a loop that never ends")
        return self._closed(exits)

    def _traced(self, trace: Trace) -> Exits:
        self.states = [self._state(group[0]) for group in self.changing]
        bound = list(self.initial)
        for group, state in zip(self.changing, self.states, strict=True):
            for index in group:
                bound[index] = state
        self.nodes, self.b.labels = [], dict(self.labels)
        with self.b.inside(self.nodes):
            return trace(rebuilt(self.entry, iter(bound)))

    def _state(self, index: int) -> Tensor:
        kind, initial = self.kinds[index], self.initial[index]
        name = self.b.fresh("state")
        if isinstance(kind, ScalarType):
            return Tensor(name, kind.dtype, (), scalar=True)
        if isinstance(kind, TensorType):
            return Tensor(name, kind.dtype, kind.shape)
        tensor = as_tensor(self.b, initial, None)
        return Tensor(name, tensor.dtype, None if tensor.shape != () else (), tensor.scalar)

    def _back(self, exits: Exits) -> Value:
        payload = exits.options[self.header]
        if outline(payload) != outline(self.entry):
            raise ValueError(CHANGING)
        return payload

    def _refine(self, back: Sequence[Value]) -> bool:
        """Take apart what no longer changes together; whether anything had to be."""
        known = {index for group in self.changing for index in group}
        fresh = [i for i, leaf in enumerate(back) if i not in known and not identical(leaf, self.initial[i])]
        groups = [part for group in (*self.changing, *_same(self.initial, self.kinds, fresh))
                  for part in _same(back, self.kinds, group)]
        changed = groups != self.changing
        self.changing = groups
        return changed

    def _closed(self, exits: Exits) -> Exits:
        """The Loop node, and its ways out in terms of its results."""
        back = leaves(exits.options[self.header])
        others = {name: payload for name, payload in exits.options.items() if name != self.header}
        names = {name for node in self.nodes for name in node.output}
        with self.b.inside(self.nodes):
            assert isinstance(exits.taken, Tensor)
            again = self.b.op("Equal", exits.taken, self.numbers[self.header], type=TensorType(_BOOL, ()))
            ends = [as_tensor(self.b, back[group[0]], self.kinds[group[0]]) for group in self.changing]
        starts = [as_tensor(self.b, self.initial[group[0]], self.kinds[group[0]]) for group in self.changing]
        carried = list(self.states)
        for tensor in {leaf.name: leaf for payload in others.values() for leaf in leaves(payload)
                       if isinstance(leaf, Tensor) and leaf.name in names}.values():
            starts.append(anything(self.b, tensor, None))
            carried.append(replace(tensor, name=self.b.fresh("unset")))
            ends.append(tensor)
        if len(others) > 1:
            starts.append(self.b.tensor(0))
            carried.append(Tensor(self.b.fresh("unset"), _INT64, ()))
            ends.append(exits.taken)
        results = self._loop(again, starts, carried, ends)
        after = dict(zip((*(s.name for s in self.states), *(e.name for e in ends[len(self.states):])),
                         results, strict=True))
        taken = results[-1] if len(others) > 1 else self.numbers[next(iter(others))]
        return Exits({name: rebuilt(payload, iter([after.get(leaf.name, leaf) if isinstance(leaf, Tensor) else leaf
                                                   for leaf in leaves(payload)]))
                      for name, payload in others.items()}, taken)

    def _loop(self, again: Tensor, starts: Sequence[Tensor], carried: Sequence[Tensor],
              ends: Sequence[Tensor]) -> list[Tensor]:
        counters = [Tensor(self.b.fresh("iteration"), _INT64, ()), Tensor(self.b.fresh("condition"), _BOOL, ())]
        inputs = [*counters, *(replace(tensor, shape=None) if tensor.name.startswith("unset") else tensor
                               for tensor in carried)]
        body = self.b.body("loop", self.nodes, inputs, [again, *ends])
        results = [Tensor(self.b.fresh("Loop"), end.dtype, one.shape, one.scalar)
                   for one, end in zip(carried, ends, strict=True)]
        self.b.control("Loop", [None, self.b.tensor(True), *starts], results, body=body)
        return results


def _same(values: Sequence[Value], kinds: Sequence[ValueType | None], group: Sequence[int]) -> list[list[int]]:
    """A group in parts of identical values of one type."""
    parts: list[list[int]] = []
    for index in group:
        for part in parts:
            if identical(values[index], values[part[0]]) and kinds[index] == kinds[part[0]]:
                part.append(index)
                break
        else:
            parts.append([index])
    return parts
