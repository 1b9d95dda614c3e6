"""Joins of branches: two pieces of a graph that become the branches of one ONNX If."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np

from ...element_types.value_types import TensorType, ValueType
from ..builder import INT64, Builder, OnnxTensor, Value, has_collective
from .exits import ControlFlowPosition, Exits, LoweredBranch, PayloadTypes, anything_like
from .trees import as_tensor, identical, identity, leaf_types, leaves, outline, rebuilt


class BranchJoin:
    """Two branches while they are joined; `types` are the recorded types of the payloads."""

    def __init__(
        self,
        b: Builder,
        branches: tuple[LoweredBranch, LoweredBranch],
        types: PayloadTypes,
        position: ControlFlowPosition,
    ) -> None:
        self._b = b
        self._branches = branches
        self._types = types
        self._position = position
        self._made = [
            {name for node in branch.nodes for name in node.output} for branch in branches
        ]
        self._outputs: tuple[list[OnnxTensor], list[OnnxTensor]] = ([], [])
        self._results: dict[Hashable, OnnxTensor] = {}
        self._fillers: dict[Hashable, OnnxTensor] = {}

    def exits(self, condition: OnnxTensor) -> Exits:
        """The exits of both together; adds an If to the graph unless both do nothing."""
        yes, no = (branch.exits for branch in self._branches)
        options = {name: self._payload(name) for name in dict.fromkeys((*yes.options, *no.options))}
        taken = self._taken(condition, yes.taken, no.taken)
        self._add_if(condition)
        return Exits(options, taken)

    def _taken(
        self, condition: OnnxTensor, yes: int | OnnxTensor, no: int | OnnxTensor
    ) -> int | OnnxTensor:
        if isinstance(yes, OnnxTensor) or isinstance(no, OnnxTensor):
            return self._output([yes, no], None)
        if yes == no:
            return yes
        numbers = self._b.tensor(yes), self._b.tensor(no)
        return self._b.op("Where", condition, *numbers, type=TensorType(INT64, ()))

    def _payload(self, name: str) -> Value:
        payloads = [branch.exits.options.get(name) for branch in self._branches]
        present = next(payload for payload in payloads if payload is not None)
        if None not in payloads and outline(payloads[0]) != outline(payloads[1]):
            raise ValueError("the branches give results of different structure")
        self._position.check_payload(name, present)
        kinds = leaf_types(present, self._types.of(name))
        sides = [[None] * len(kinds) if p is None else leaves(p) for p in payloads]
        exist = [p is not None for p in payloads]
        found = [
            self._leaf(name, index, pair, kind, exist)
            for index, (*pair, kind) in enumerate(zip(*sides, kinds, strict=True))
        ]
        return rebuilt(present, iter(found))

    def _leaf(
        self, name: str, index: int, pair: list[Value], kind: ValueType | None, exist: list[bool]
    ) -> Value:
        if all(exist):
            return pair[0] if identical(*pair) else self._output(pair, kind)
        side = exist.index(True)
        leaf, other = pair[side], self._position.untaken_leaf(name, index)
        if other is None:
            if not isinstance(leaf, OnnxTensor) or leaf.name not in self._made[side]:
                return leaf
            other = self._filler(1 - side, leaf, kind)
        elif identical(leaf, other):
            return leaf
        return self._output([leaf, other] if side == 0 else [other, leaf], kind)

    def _filler(self, side: int, like: OnnxTensor, kind: ValueType | None) -> OnnxTensor:
        key = (side, like.dtype, like.shape, kind)
        if key not in self._fillers:
            with self._b.inside(self._branches[side].nodes):
                self._fillers[key] = anything_like(self._b, like, kind)
        return self._fillers[key]

    def _output(self, pair: Sequence[Value], kind: ValueType | None) -> OnnxTensor:
        """One output of the If, from a leaf of each branch; the same for the same leaves."""
        key = (*map(identity, pair), kind)
        if key not in self._results:
            self._results[key] = self._new_output(pair, kind)
        return self._results[key]

    def _new_output(self, pair: Sequence[Value], kind: ValueType | None) -> OnnxTensor:
        tensors = [leaf for leaf in pair if isinstance(leaf, OnnxTensor)]
        known = kind or next((TensorType(tensor.dtype, None) for tensor in tensors), None)
        ends = []
        for branch, outputs, leaf in zip(self._branches, self._outputs, pair, strict=True):
            with self._b.inside(branch.nodes):
                end = as_tensor(self._b, leaf, known)
            end = replace(end, scalar=getattr(leaf, "scalar", end.scalar))
            ends.append(end)
            outputs.append(end)
        scalar = all(end.scalar for end in ends)
        shape = (
            kind.shape
            if isinstance(kind, TensorType)
            else _common_shape(*(getattr(leaf, "shape", ()) for leaf in pair))
        )
        return OnnxTensor(self._b.fresh("If"), ends[0].dtype, () if scalar else shape, scalar)

    def _add_if(self, condition: OnnxTensor) -> None:
        if not self._results:
            if not any(has_collective(branch.nodes) for branch in self._branches):
                return
            self._output([np.array(True), np.array(False)], None)  # an If must have an output
        then, other = (
            self._b.body("branch", branch.nodes, [], outputs)
            for branch, outputs in zip(self._branches, self._outputs, strict=True)
        )
        results = list(self._results.values())
        self._b.control("If", [condition], results, then_branch=then, else_branch=other)


def _common_shape(a: tuple[int, ...] | None, b: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """The shape of either of two tensors, as far as it is known."""
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(x if x == y else -1 for x, y in zip(a, b, strict=True))
