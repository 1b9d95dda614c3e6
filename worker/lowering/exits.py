"""Where a piece of a graph can lead, and how two such pieces become the branches of one ONNX If."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
from onnx import NodeProto

from ..mindir.graph import TensorType, ValueType
from .builder import Builder, Tensor, Value
from .graphs import acts
from .trees import as_tensor, identical, identity, leaf_types, leaves, outline, rebuilt

RETURN = ""
"""The option of returning to the caller; every other one is the name of a function to go on with."""
CHANGING = "is a loop that carries tuples of changing length or changing functions"
_INT64 = np.dtype(np.int64)
_SMALL = 4096  # elements: larger ones are not worth being kept in the model


@dataclass(frozen=True, slots=True)
class Exits:
    """The ways out of a piece of a graph: what each hands on, and which of them is taken.

    A payload is the tree of all that the way hands on. `taken` is the number of the option taken, known now or only at
    run time; the payloads of the others hold anything of the right dtypes then.
    """

    options: Mapping[str, Value]
    taken: int | Tensor


@dataclass(frozen=True, slots=True)
class Branch:
    """Nodes that run only sometimes, and where they lead."""

    nodes: list[NodeProto]
    exits: Exits


@dataclass(frozen=True, slots=True)
class Untaken:
    """What stands in the payload of an option that was not taken, where it matters: by option, leaf by leaf."""

    payloads: Mapping[str, Sequence[Value]] = field(default_factory=dict)

    def check(self, option: str, payload: Value) -> None:
        """Raise ValueError where an option's payload has not the form of what stands in it."""
        if option in self.payloads and len(self.payloads[option]) != len(leaves(payload)):
            raise ValueError(CHANGING)

    def leaf(self, option: str, index: int) -> Value:
        """The value of one leaf; None where anything will do."""
        return self.payloads[option][index] if option in self.payloads else None


def anything(b: Builder, like: Tensor, kind: ValueType | None) -> Tensor:
    """Some tensor of the dtype and shape of another, as far as they are known."""
    shape = kind.shape if isinstance(kind, TensorType) else like.shape
    sizes = (0,) if shape is None else tuple(max(dim, 0) for dim in shape)
    if prod(sizes) <= _SMALL:
        return b.tensor(np.zeros(sizes, like.dtype))
    zero = b.tensor(np.zeros((), like.dtype))
    result: Tensor = b.op("Expand", zero, b.ints(sizes), type=TensorType(like.dtype, sizes))
    return result


class Join:
    """Two branches while they are being joined; `kinds` are the recorded types of each option's payload."""

    def __init__(self, b: Builder, yes: Branch, no: Branch, kinds: Mapping[str, ValueType | None],
                 untaken: Untaken) -> None:
        self.b, self.branches, self.kinds, self.untaken = b, (yes, no), kinds, untaken
        self.made = [{name for node in branch.nodes for name in node.output} for branch in self.branches]
        self.outputs: tuple[list[Tensor], list[Tensor]] = ([], [])
        self.results: dict[Any, Tensor] = {}
        self.fillers: dict[Any, Tensor] = {}

    def exits(self, condition: Tensor) -> Exits:
        """Where the two lead together; adds an If to the graph unless both do nothing."""
        yes, no = (branch.exits for branch in self.branches)
        options = {name: self._payload(name) for name in dict.fromkeys((*yes.options, *no.options))}
        taken: int | Tensor
        if isinstance(yes.taken, int) and isinstance(no.taken, int):
            taken = yes.taken if yes.taken == no.taken else self._picked(condition, yes.taken, no.taken)
        else:
            taken = self._output([yes.taken, no.taken], None)
        self._add_if(condition)
        return Exits(options, taken)

    def _picked(self, condition: Tensor, yes: int, no: int) -> Tensor:
        number = TensorType(_INT64, ())
        result: Tensor = self.b.op("Where", condition, self.b.tensor(yes), self.b.tensor(no), type=number)
        return result

    def _payload(self, name: str) -> Value:
        payloads = [branch.exits.options.get(name) for branch in self.branches]
        present = next(payload for payload in payloads if payload is not None)
        if None not in payloads and outline(payloads[0]) != outline(payloads[1]):
            raise ValueError("the branches give results of different structure")
        self.untaken.check(name, present)
        kinds = leaf_types(present, self.kinds.get(name))
        pairs = zip(*(leaves(p) if p is not None else [None] * len(kinds) for p in payloads), strict=True)
        return rebuilt(present, iter([self._leaf(name, i, pair, kind, [p is not None for p in payloads])
                                      for i, (pair, kind) in enumerate(zip(pairs, kinds, strict=True))]))

    def _leaf(self, name: str, index: int, pair: tuple[Value, Value], kind: ValueType | None,
              present: list[bool]) -> Value:
        if all(present):
            return pair[0] if identical(*pair) else self._output(list(pair), kind)
        side = present.index(True)
        leaf, other = pair[side], self.untaken.leaf(name, index)
        if other is None:
            if not isinstance(leaf, Tensor) or leaf.name not in self.made[side]:
                return leaf
            other = self._anything(1 - side, leaf, kind)
        elif identical(leaf, other):
            return leaf
        return self._output([leaf, other] if side == 0 else [other, leaf], kind)

    def _anything(self, side: int, like: Tensor, kind: ValueType | None) -> Tensor:
        key = (side, like.dtype, like.shape, kind)
        if key not in self.fillers:
            with self.b.inside(self.branches[side].nodes):
                self.fillers[key] = anything(self.b, like, kind)
        return self.fillers[key]

    def _output(self, pair: list[Value], kind: ValueType | None) -> Tensor:
        """One output of the If, from a leaf of each branch; the same for the same leaves."""
        key = (*map(identity, pair), kind)
        if key not in self.results:
            self.results[key] = self._new_output(pair, kind)
        return self.results[key]

    def _new_output(self, pair: list[Value], kind: ValueType | None) -> Tensor:
        known = kind or next((TensorType(leaf.dtype, None) for leaf in pair if isinstance(leaf, Tensor)), None)
        tensors = []
        for branch, outputs, leaf in zip(self.branches, self.outputs, pair, strict=True):
            with self.b.inside(branch.nodes):
                tensor = as_tensor(self.b, leaf, known)
                tensors.append(replace(tensor, scalar=getattr(leaf, "scalar", tensor.scalar)))
            outputs.append(tensor)
        first, second = tensors
        shape = kind.shape if isinstance(kind, TensorType) else _common(*(getattr(leaf, "shape", ()) for leaf in pair))
        scalar = first.scalar and second.scalar
        return Tensor(self.b.fresh("If"), first.dtype, () if scalar else shape, scalar)

    def _add_if(self, condition: Tensor) -> None:
        if not self.results and not any(acts(branch.nodes) for branch in self.branches):
            return
        if not self.results:  # an If must have an output
            self._output([np.array(True), np.array(False)], None)
        then, other = (self.b.body("branch", branch.nodes, [], outputs)
                       for branch, outputs in zip(self.branches, self.outputs, strict=True))
        self.b.control("If", [condition], list(self.results.values()), then_branch=then, else_branch=other)


def _common(a: tuple[int, ...] | None, b: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """The shape of either of two tensors, as far as it is known."""
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(x if x == y else -1 for x, y in zip(a, b, strict=True))
