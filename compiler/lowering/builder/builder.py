"""Builder: the ONNX graph of one model, while lowerings add nodes to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from onnx import GraphProto, NodeProto, helper

from ...element_types import dtypes
from ...element_types.value_types import OtherType, TensorType, ValueType
from ...mindir.graph import MindirNode, StoredWeight
from .budget import LoweringBudget
from .graphs import inner_graph, whole_graph
from .initializers import Initializers, UniqueNames
from .kernels import compute_dtype
from .sizes import AxisSizes, Run, runs
from .tensor import OnnxTensor, Provenance, Value

__all__ = ["Attribute", "Builder", "OnnxTensor", "Value"]

Attribute: TypeAlias = "int | float | str | Sequence[int] | Sequence[float]"
"""The value of an ONNX attribute."""
_MOST_OUTPUTS = 1 << 14
_TO_BOOL = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "IsNaN", "IsInf")
_TO_INT64 = ("ArgMax", "ArgMin", "Shape", "Size", "NonZero")
_RESULT_DTYPES = {**dict.fromkeys(_TO_BOOL, dtypes.BOOL), **dict.fromkeys(_TO_INT64, dtypes.INT64)}
"""Operators whose result has another dtype than their first input."""


class Builder:
    """Nodes, constants and weights of one ONNX graph; lowerings see only this.

    `label` and `result_type` are those of the MindIR node that is being lowered: ONNX nodes are
    named after its label. The finished graph has only nodes that its outputs need. So a lowering
    may add results that are seldom used, and may replace a node by a better one instead of changing
    it.
    """

    def __init__(self) -> None:
        self.label = ""
        self.result_type: ValueType = OtherType("none")
        self.label_counts: dict[str, int] = {}  # how many ONNX nodes were named after each label
        self.budget = LoweringBudget()
        self._uses: Counter[str] = Counter()
        self._nodes: list[NodeProto] = []
        self._declared: dict[str, OnnxTensor] = {}
        self._provenance: dict[str, Provenance] = {}
        self._names = UniqueNames()
        self._initializers = Initializers(self._names, self.budget)

    def begin(self, node: MindirNode) -> None:
        """Name the ONNX nodes that follow after a MindIR node."""
        self.label = node.label
        self.result_type = node.type

    def op(
        self,
        op_type: str,
        *inputs: Value,
        domain: str = "",
        type: TensorType | None = None,
        **attributes: Attribute,
    ) -> OnnxTensor:
        """Add one ONNX node with one result.

        Inputs may be tensors, numbers or arrays (which become initializers) and None (an omitted
        optional input). A number takes the dtype of the first tensor among the inputs. `type`
        states the result's type where it is known; else its dtype is the operator's own, or that of
        the first tensor. Where onnxruntime's kernel lacks the dtype, casts are put around the node.
        """
        return self._add(op_type, domain, inputs, (type,), attributes)[0]

    def ops(
        self,
        op_type: str,
        *inputs: Value,
        outputs: int,
        domain: str = "",
        types: Sequence[TensorType] = (),
        **attributes: Attribute,
    ) -> tuple[OnnxTensor, ...]:
        """Add one ONNX node with so many results; like `op` in all else."""
        if outputs > _MOST_OUTPUTS:
            raise ValueError(f"{outputs} results of one operator, expected at most {_MOST_OUTPUTS}")
        return self._add(op_type, domain, inputs, types or (None,) * outputs, attributes)

    def _add(
        self,
        op_type: str,
        domain: str,
        inputs: Sequence[Value],
        types: Sequence[TensorType | None],
        attributes: dict[str, Attribute],
    ) -> tuple[OnnxTensor, ...]:
        self.budget.add_results(len(types))
        like = next(
            (x.dtype for x in inputs if isinstance(x, (OnnxTensor, np.ndarray))), dtypes.FLOAT32
        )
        tensors = [None if x is None else self.tensor(x, like) for x in inputs]
        kinds = [kind or TensorType(_RESULT_DTYPES.get(op_type, like), None) for kind in types]
        wide = like if domain else compute_dtype(op_type, like)
        if wide == like:
            return self._node(op_type, domain, tensors, kinds, attributes)
        cast = [self.cast(t, wide) if t and t.dtype == like else t for t in tensors]
        widened = [replace(kind, dtype=wide) if kind.dtype == like else kind for kind in kinds]
        results = self._node(op_type, domain, cast, widened, attributes)
        return tuple(self.cast(t, kind.dtype) for t, kind in zip(results, kinds, strict=True))

    def _node(
        self,
        op_type: str,
        domain: str,
        inputs: Sequence[OnnxTensor | None],
        types: Sequence[TensorType],
        attributes: dict[str, Attribute],
    ) -> tuple[OnnxTensor, ...]:
        names = [self.fresh(op_type) for _ in types]
        taken = [tensor.name if tensor else "" for tensor in inputs]
        node = helper.make_node(op_type, taken, names, self._node_name(op_type), domain=domain)
        for name in sorted(attributes):
            node.attribute.append(helper.make_attribute(name, attributes[name]))
        self._nodes.append(node)
        self._provenance.update(dict.fromkeys(names, Provenance(node, tuple(inputs))))
        return tuple(
            OnnxTensor(name, kind.dtype, kind.shape)
            for name, kind in zip(names, types, strict=True)
        )

    def cast(self, value: Value, dtype: np.dtype[np.generic]) -> OnnxTensor:
        """`value` in `dtype`; nothing is added where it has it already."""
        tensor = self.tensor(value)
        if tensor.dtype == dtype:
            return tensor
        kind = TensorType(dtype, tensor.shape)
        return self.op("Cast", tensor, to=dtypes.to_onnx(dtype), type=kind)

    def tensor(self, value: Value, dtype: np.dtype[np.generic] | None = None) -> OnnxTensor:
        """`value` as a tensor: constants become initializers, tuples of numbers 1-d int64 tensors.

        `dtype` is for Python numbers, whose own default is int64, float32 or bool.
        """
        if isinstance(value, OnnxTensor):
            return value
        if isinstance(value, tuple):
            return self.ints(value)
        if isinstance(value, np.ndarray):
            return self._initializers.array(value)
        if isinstance(value, (bool, int, float)):
            return self._initializers.number(value, dtype)
        raise ValueError(f"{type(value).__name__} is not a tensor")

    def ints(self, values: Sequence[Value]) -> OnnxTensor:
        """A 1-d int64 tensor of numbers and scalar tensors, as shapes and axes are."""
        if all(isinstance(value, int) for value in values):
            return self._int_constant(values)
        parts = [self._vector(run) for run in runs(values, self._axis_of)]
        if len(parts) == 1:
            return parts[0]
        return self.op("Concat", *parts, axis=0, type=TensorType(dtypes.INT64, (len(values),)))

    def _int_constant(self, values: Sequence[int]) -> OnnxTensor:
        array = np.array([int(value) for value in values], np.int64)
        return self._initializers.constant(("ints", tuple(array.tolist())), lambda: array)

    def _vector(self, run: Run) -> OnnxTensor:
        if isinstance(run, tuple):
            return self._int_constant(run)
        if isinstance(run, AxisSizes):
            kind = TensorType(dtypes.INT64, (run.end - run.start,))
            return self.op("Shape", run.tensor, start=run.start, end=run.end, type=kind)
        one = TensorType(dtypes.INT64, (1,))
        return self.op("Reshape", self.cast(run, dtypes.INT64), self.ints((1,)), type=one)

    def _axis_of(self, value: Value) -> AxisSizes | None:
        """The tensor and the axis whose size a value is, if it was taken from a Shape."""
        gather = self.made(value, "Gather")
        if gather is None or gather.inputs[1] is None:
            return None
        shape, axis = (
            self.made(gather.inputs[0], "Shape"),
            self._initializers.integer(gather.inputs[1]),
        )
        if (
            shape is None
            or axis is None
            or axis < 0
            or shape.node.attribute
            or shape.inputs[0] is None
        ):
            return None
        return AxisSizes(shape.inputs[0], axis, axis + 1)

    def weight(self, key: str, weight: StoredWeight, location: str) -> OnnxTensor:
        """A parameter as an initializer that stays in its file, at a relative path."""
        return self._initializers.weight(key, weight, location)

    def once(self, key: str, make: Callable[[], NDArray[np.generic]]) -> OnnxTensor:
        """The constant of a key, made the first time that a model needs it."""
        return self._initializers.constant(key, make)

    def is_constant(self, tensor: OnnxTensor) -> bool:
        """Whether a tensor is an initializer."""
        return tensor.name in self._initializers.records

    def made(self, tensor: Value, op_type: str) -> Provenance | None:
        """The node that gives a tensor, if it is an `op_type`."""
        found = self._provenance.get(tensor.name) if isinstance(tensor, OnnxTensor) else None
        return found if found and found.node.op_type == op_type else None

    def add_uses(self, value: Value, count: int) -> None:
        """Count the MindIR nodes that take a value."""
        if isinstance(value, OnnxTensor):
            self._uses[value.name] += count

    def uses(self, tensor: OnnxTensor) -> int:
        """How many MindIR nodes take a tensor."""
        return self._uses[tensor.name]

    def output(self, tensor: OnnxTensor, name: str) -> OnnxTensor:
        """`tensor` under the name of a graph output."""
        name = self.fresh(name)
        node = helper.make_node("Identity", [tensor.name], [name], self._unique(name))
        self._nodes.append(node)
        return replace(tensor, name=name)

    def declare(self, tensor: OnnxTensor) -> None:
        """Record a tensor's type in the graph, which the cut at collectives reads."""
        self._declared[tensor.name] = tensor

    def fresh(self, stem: str) -> str:
        """A name that nothing in this graph has yet."""
        return self._names.fresh(stem)

    @contextmanager
    def inside(self, nodes: list[NodeProto]) -> Iterator[None]:
        """A scope in which new nodes go into `nodes`, those of a branch or body.

        They may use all values around them. Outer tensors have no provenance inside: a lowering
        would otherwise compute an outer node once more, in every round of a loop.
        """
        outer = self._nodes, self._provenance
        self._nodes, self._provenance = nodes, {}
        try:
            yield
        finally:
            self._nodes, self._provenance = outer

    def extend(self, nodes: Sequence[NodeProto]) -> None:
        """Add nodes that were made apart."""
        self._nodes.extend(nodes)

    def control(
        self,
        op_type: str,
        inputs: Sequence[OnnxTensor | None],
        results: Sequence[OnnxTensor],
        **graphs: GraphProto,
    ) -> None:
        """Add an If or Loop whose results have their names already."""
        taken = [tensor.name if tensor else "" for tensor in inputs]
        given = [tensor.name for tensor in results]
        node = helper.make_node(op_type, taken, given, self._node_name(op_type))
        node.attribute.extend(helper.make_attribute(name, graph) for name, graph in graphs.items())
        self._nodes.append(node)

    def body(
        self,
        name: str,
        nodes: list[NodeProto],
        inputs: Sequence[OnnxTensor],
        outputs: Sequence[OnnxTensor],
    ) -> GraphProto:
        """Nodes made apart as the graph of a branch or body; each output gets a name of its own."""
        own: dict[str, OnnxTensor] = {}
        ready = {name for node in nodes for name in node.output}
        with self.inside(nodes):
            for tensor in outputs:
                repeated = tensor.name in own or tensor.name not in ready
                tensor = self.output(tensor, "result") if repeated else tensor
                own[tensor.name] = tensor
        results = [self._declared.get(key) or replace(one, shape=None) for key, one in own.items()]
        return inner_graph(name, nodes, inputs, results, self._declared)

    def graph(self, inputs: Sequence[OnnxTensor], outputs: Sequence[OnnxTensor]) -> GraphProto:
        """All nodes as one graph, without nodes and constants that nothing uses."""
        return whole_graph(self._nodes, inputs, outputs, self._initializers.records, self._declared)

    def _node_name(self, op_type: str) -> str:
        return self._unique(self.label or op_type)

    def _unique(self, stem: str) -> str:
        """A name of a node that no other has."""
        count = self.label_counts[stem] = self.label_counts.get(stem, 0) + 1
        return stem if count == 1 else f"{stem}_{count}"
