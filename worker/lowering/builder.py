"""The ONNX graph while it is being built: values, nodes, initializers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import GraphProto, NodeProto, TensorProto, helper

from .. import dtypes
from ..mindir.graph import Node, ScalarType, TensorType, ValueType, Weight
from .bulk import Bulk
from .graphs import inner_graph, whole_graph
from .kernels import compute_dtype
from .sizes import pieces
from .tensor import Made, Tensor, Value

__all__ = ["Builder", "Tensor", "Value"]  # what a lowering imports

# The newest opset and IR version that every onnxruntime from 1.23 on runs and fuses fully.
OPSET, IR_VERSION = 21, 10
_BOOL, _INT64, _FLOAT32 = np.dtype(np.bool_), np.dtype(np.int64), np.dtype(np.float32)
_MOST_OUTPUTS = 1 << 14
# Operators whose result has another dtype than their first input.
_RESULTS = dict.fromkeys(("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "IsNaN", "IsInf"), _BOOL) | \
    dict.fromkeys(("ArgMax", "ArgMin", "Shape", "Size", "NonZero"), _INT64)


class Builder:
    """Adds nodes for one MindIR node after the other; lowerings see only this.

    `node` is the MindIR node being lowered: its label names the ONNX nodes, its type is the result's.
    Nodes that nothing uses in the end are left out of the graph, so lowerings may add results that
    are seldom wanted, and may replace a node by a better one instead of changing it.
    """

    def __init__(self) -> None:
        self.node: Node | None = None
        self.uses: dict[str, int] = {}  # how many MindIR nodes take a tensor, by name; set by the walk
        self._nodes: list[NodeProto] = []
        self._initializers: dict[str, TensorProto] = {}
        self._declared: dict[str, Tensor] = {}
        self._made: dict[str, Made] = {}
        self._constants: dict[Any, Tensor] = {}
        self._alive: list[NDArray[Any]] = []  # arrays whose id() is a key above
        self._weights: dict[str, Tensor] = {}
        self._names: dict[str, int] = {}
        self.bulk = Bulk()
        self.labels: dict[str, int] = {}  # how many nodes have each name

    def op(
        self, op_type: str, *inputs: Value, outputs: int = 1, domain: str = "",
        type: TensorType | None = None, types: Sequence[TensorType] | None = None, **attributes: Any,
    ) -> Any:
        """Add one ONNX node; returns its Tensor, or a tuple of them where `outputs` is not 1.

        Inputs may be Tensors, numbers or arrays (which become initializers) and None (an omitted
        optional input). A number takes the dtype of the first Tensor among the inputs. `type`
        states the result's type where it is known; else its dtype is the operator's own or that of the first
        tensor input. Where a kernel lacks the dtype, casts are put around the node.
        """
        if outputs > _MOST_OUTPUTS:
            raise ValueError(f"{outputs} results of one operator, expected at most {_MOST_OUTPUTS}")
        self.bulk.add_results(outputs)
        like = next((x.dtype for x in inputs if isinstance(x, (Tensor, np.ndarray))), _FLOAT32)
        tensors = [None if x is None else self.tensor(x, like) for x in inputs]
        given = list(types) if types else [type or TensorType(_RESULTS.get(op_type, like), None)] * outputs
        wide = like if domain else compute_dtype(op_type, like)
        if wide == like:
            results = self._node(op_type, domain, tensors, given, attributes)
        else:
            cast = [self.cast(t, wide) if t and t.dtype == like else t for t in tensors]
            widened = [replace(kind, dtype=wide) if kind.dtype == like else kind for kind in given]
            made = self._node(op_type, domain, cast, widened, attributes)
            results = [self.cast(t, kind.dtype) for t, kind in zip(made, given, strict=True)]
        return results[0] if outputs == 1 else tuple(results)

    def _node(self, op_type: str, domain: str, inputs: Sequence[Tensor | None], types: Sequence[TensorType],
              attributes: dict[str, Any]) -> list[Tensor]:
        names = [self.fresh(op_type) for _ in types]
        node = helper.make_node(
            op_type, [t.name if t else "" for t in inputs], names, name=self._label(op_type),
            domain=domain, **attributes)
        self._nodes.append(node)
        made = Made(node, tuple(inputs))
        self._made.update(dict.fromkeys(names, made))
        return [Tensor(name, kind.dtype, kind.shape) for name, kind in zip(names, types, strict=True)]

    def cast(self, value: Value, dtype: np.dtype[np.generic]) -> Tensor:
        """`value` in `dtype`; nothing is added where it has it already."""
        tensor = self.tensor(value)
        if tensor.dtype == dtype:
            return tensor
        result: Tensor = self.op("Cast", tensor, to=dtypes.to_onnx(dtype), type=TensorType(dtype, tensor.shape))
        return result

    def tensor(self, value: Value, dtype: np.dtype[np.generic] | None = None) -> Tensor:
        """`value` as a Tensor: constants become initializers, tuples of numbers 1-d int64 tensors.

        `dtype` is for Python numbers, whose own default is int64, float32 or bool.
        """
        if isinstance(value, Tensor):
            return value
        if isinstance(value, tuple):
            return self.ints(value)
        if isinstance(value, np.ndarray):
            return self._constant(id(value), value)
        if isinstance(value, (bool, int, float)):
            array = np.asarray(value, dtype or _default(value))
            return self._constant((type(value), repr(value), array.dtype), array)
        raise ValueError(f"{type(value).__name__} is not a tensor")

    def ints(self, values: Sequence[Value]) -> Tensor:
        """A 1-d int64 tensor of numbers and scalar Tensors, as shapes and axes are."""
        if all(isinstance(v, (int, bool)) for v in values):
            array = np.array([int(v) for v in values], np.int64)
            return self._constant(("ints", tuple(array.tolist())), array)
        parts = pieces(self, values)
        if len(parts) == 1:
            return parts[0]
        result: Tensor = self.op("Concat", *parts, axis=0, type=TensorType(_INT64, (len(values),)))
        return result

    def weight(self, key: str, weight: Weight, location: str) -> Tensor:
        """A parameter as an initializer that stays in its file (`location`, relative to the model)."""
        if not weight.length:
            return self._constant(("empty", key), np.zeros(weight.shape, weight.dtype))
        if key not in self._weights:
            name = self.fresh(weight.name)
            record = TensorProto(name=name, data_type=dtypes.to_onnx(weight.dtype), dims=weight.shape,
                                 data_location=TensorProto.EXTERNAL)
            for entry, text in (("location", location), ("offset", weight.offset), ("length", weight.length)):
                record.external_data.add(key=entry, value=str(text))
            self._initializers[name] = record
            self._weights[key] = Tensor(name, weight.dtype, weight.shape)
        return self._weights[key]

    def once(self, key: str, make: Callable[[], NDArray[Any]]) -> Tensor:
        """The constant that `make` makes, of which a model needs one by this key."""
        return self._constants.get(key) or self._constant(key, make())

    def is_constant(self, tensor: Tensor) -> bool:
        """Whether a tensor is an initializer."""
        return tensor.name in self._initializers

    def number(self, tensor: Value) -> int | None:
        """The number in a constant that is one int64, else None."""
        record = self._initializers.get(tensor.name) if isinstance(tensor, Tensor) else None
        if record is None or tensor.dtype != _INT64 or tensor.shape != () or not record.raw_data:
            return None
        return int.from_bytes(record.raw_data, sys.byteorder, signed=True)

    def made(self, tensor: Value, op_type: str) -> Made | None:
        """How a tensor came about if by an `op_type` node, else None."""
        found = self._made.get(tensor.name) if isinstance(tensor, Tensor) else None
        return found if found and found.node.op_type == op_type else None

    def typed(self, value: Value, kind: ValueType) -> Value:
        """`value` with the type that MindSpore recorded for it, cast where ONNX yields another dtype."""
        if isinstance(value, Tensor):
            if isinstance(kind, TensorType):
                known = value.shape if kind.shape is None else kind.shape  # MindSpore gives up a rank sooner than we do
                value = replace(self.cast(value, kind.dtype), shape=known)
                self.declare(value)
            elif isinstance(kind, ScalarType):
                value = replace(value, shape=(), scalar=True)
        elif isinstance(value, (bool, int, float)) and isinstance(kind, TensorType):
            value = np.asarray(value, kind.dtype)
        elif isinstance(value, tuple):
            items = getattr(kind, "items", None)
            if items is not None and len(items) == len(value):
                value = tuple(self.typed(v, k) for v, k in zip(value, items, strict=True))
        return value

    def output(self, tensor: Tensor, name: str) -> Tensor:
        """`tensor` under the name of a graph output."""
        name = self.fresh(name)
        self._nodes.append(helper.make_node("Identity", [tensor.name], [name], name=name))
        return replace(tensor, name=name)

    def declare(self, tensor: Tensor) -> None:
        """Record a tensor's type in the graph, for whoever cuts it later."""
        self._declared[tensor.name] = tensor

    def fresh(self, stem: str) -> str:
        """A name that nothing in this graph has yet."""
        count = self._names.get(stem, 0) + 1
        self._names[stem] = count
        return stem if count == 1 else self.fresh(f"{stem}_{count}")

    @contextmanager
    def inside(self, nodes: list[NodeProto]) -> Iterator[None]:
        """What is added meanwhile goes into `nodes`, those of a branch or body, which see all that is around them.

        How outer tensors came about is not told there: it would be computed once more, in every round of a loop.
        """
        outer = self._nodes, self._made
        self._nodes, self._made = nodes, {}
        try:
            yield
        finally:
            self._nodes, self._made = outer

    def extend(self, nodes: Sequence[NodeProto]) -> None:
        """Add nodes that were made apart."""
        self._nodes.extend(nodes)

    def control(self, op_type: str, inputs: Sequence[Tensor | None], results: Sequence[Tensor],
                **graphs: GraphProto) -> None:
        """Add an If or Loop whose results have their names already."""
        node = helper.make_node(op_type, [t.name if t else "" for t in inputs], [t.name for t in results],
                                self._label(op_type))
        node.attribute.extend(helper.make_attribute(name, graph) for name, graph in graphs.items())
        self._nodes.append(node)

    def body(self, name: str, nodes: list[NodeProto], inputs: Sequence[Tensor],
             outputs: Sequence[Tensor]) -> GraphProto:
        """Nodes made apart as the graph of a branch or body, every output made inside and under its own name."""
        own: dict[str, Tensor] = {}
        ready = {name for node in nodes for name in node.output}
        with self.inside(nodes):
            for tensor in outputs:
                fresh = tensor.name in own or tensor.name not in ready
                tensor = self.output(tensor, "result") if fresh else tensor
                own[tensor.name] = tensor
        results = [self._declared.get(key) or replace(tensor, shape=None) for key, tensor in own.items()]
        return inner_graph(name, nodes, inputs, results, self._declared)

    def graph(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> GraphProto:
        """What was built as one graph, without nodes and constants that nothing uses."""
        return whole_graph(self._nodes, inputs, outputs, self._initializers, self._declared)

    def _label(self, op_type: str) -> str:
        """A name for the next node."""
        stem = self.node.label if self.node else op_type
        count = self.labels[stem] = self.labels.get(stem, 0) + 1
        return stem if count == 1 else f"{stem}_{count}"

    def _constant(self, key: Any, array: NDArray[Any]) -> Tensor:
        if key not in self._constants:
            self.bulk.add_value(array)
            self._alive.append(array)
            name = self.fresh("constant")
            self._initializers[name] = TensorProto(
                name=name, data_type=dtypes.to_onnx(array.dtype), dims=array.shape, raw_data=array.tobytes())
            self._constants[key] = Tensor(name, array.dtype, array.shape)
        return self._constants[key]


def _default(value: bool | int | float) -> Any:
    if isinstance(value, bool):
        return np.bool_
    return np.int64 if isinstance(value, int) else np.float32
