"""The ONNX graph while it is being built: values, nodes, initializers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, helper

from .. import dtypes
from ..mindir.graph import Node, ScalarType, TensorType, ValueType, Weight

# The newest opset and IR version that every onnxruntime from 1.23 on runs and fuses fully.
OPSET, IR_VERSION = 21, 10
DOMAIN = "rankmesh"


@dataclass(frozen=True, slots=True)
class Tensor:
    """A value of the ONNX graph. shape None: unknown rank; -1: unknown dimension.

    `scalar` marks what MindSpore regards as a Python number: a 0-d tensor here.
    """

    name: str
    dtype: np.dtype[np.generic]
    shape: tuple[int, ...] | None = None
    scalar: bool = False

    @property
    def rank(self) -> int:
        """The number of dimensions; ValueError where it is unknown."""
        if self.shape is None:
            raise ValueError(f"the rank of {self.name} is unknown")
        return len(self.shape)

    @property
    def static(self) -> bool:
        """Whether every dimension is known."""
        return self.shape is not None and -1 not in self.shape


# What lowerings take and return: tensors, Python constants (numbers, dtypes, arrays, None) and tuples of them.
Value: TypeAlias = Any


class Builder:
    """Adds nodes for one MindIR node after the other; lowerings see only this.

    `node` is the MindIR node being lowered: its label names the ONNX nodes, its type is the result's.
    """

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.initializers: list[TensorProto] = []
        self.value_infos: list[ValueInfoProto] = []
        self.node: Node | None = None
        self._producers: dict[str, NodeProto] = {}
        self._constants: dict[Any, Tensor] = {}
        self._alive: list[NDArray[Any]] = []  # arrays whose id() is a key above
        self._weights: dict[str, Tensor] = {}
        self._names: set[str] = set()
        self._initialized: set[str] = set()
        self.uses: dict[str, int] = {}  # how many MindIR nodes take a tensor, by name; set by the walk

    def op(
        self, op_type: str, *inputs: Value, outputs: int = 1, domain: str = "",
        type: TensorType | None = None, types: Sequence[TensorType] | None = None, **attributes: Any,
    ) -> Any:
        """Add one ONNX node; returns its Tensor, or a tuple of them where `outputs` is not 1.

        Inputs may be Tensors, numbers or arrays (which become initializers) and None (an omitted
        optional input). A number takes the dtype of the first Tensor among the inputs. `type`
        states the result's type where it is known; else its dtype is that of the first tensor input.
        """
        like = next((x.dtype for x in inputs if isinstance(x, Tensor)), None)
        tensors = [None if x is None else self.tensor(x, like) for x in inputs]
        names = [self.fresh(op_type) for _ in range(outputs)]
        node = helper.make_node(
            op_type, [t.name if t else "" for t in tensors], names, name=self.fresh(self._label(op_type)),
            domain=domain, **attributes)
        self.nodes.append(node)
        default = TensorType(tensors[0].dtype if tensors and tensors[0] else np.dtype(np.float32), None)
        given = list(types) if types else [type or default] * outputs
        results = []
        for name, kind in zip(names, given, strict=True):
            self._producers[name] = node
            results.append(Tensor(name, kind.dtype, kind.shape))
        return results[0] if outputs == 1 else tuple(results)

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
            return self._constant((type(value), value, repr(value), str(dtype)), np.asarray(value, dtype or _default(value)))
        raise ValueError(f"{type(value).__name__} is not a tensor")

    def ints(self, values: Sequence[Value]) -> Tensor:
        """A 1-d int64 tensor of numbers and scalar Tensors, as shapes and axes are."""
        if all(isinstance(v, (int, bool)) for v in values):
            array = np.array([int(v) for v in values], np.int64)
            return self._constant(("ints", tuple(array.tolist())), array)
        one = TensorType(np.dtype(np.int64), (1,))
        parts = [self.op("Reshape", self.cast(v, one.dtype), self.ints((1,)), type=one) for v in values]
        result: Tensor = self.op("Concat", *parts, axis=0, type=TensorType(one.dtype, (len(values),)))
        return result

    def weight(self, key: str, weight: Weight, location: str) -> Tensor:
        """A parameter as an initializer that stays in its file (`location`, relative to the model)."""
        if key not in self._weights:
            name = self.fresh(weight.name)
            record = TensorProto(name=name, data_type=dtypes.to_onnx(weight.dtype), dims=weight.shape,
                                 data_location=TensorProto.EXTERNAL)
            for entry, text in (("location", location), ("offset", weight.offset), ("length", weight.length)):
                record.external_data.add(key=entry, value=str(text))
            self.initializers.append(record)
            self._initialized.add(name)
            self._weights[key] = Tensor(name, weight.dtype, weight.shape)
        return self._weights[key]

    def is_constant(self, tensor: Tensor) -> bool:
        """Whether a tensor is an initializer."""
        return tensor.name in self._initialized

    def producer(self, tensor: Tensor) -> NodeProto | None:
        """The ONNX node that makes a tensor, None for inputs and initializers."""
        return self._producers.get(tensor.name)

    def only_used_here(self, tensor: Tensor) -> bool:
        """Whether no other MindIR node takes this tensor, so that its producer may be changed."""
        return self.uses.get(tensor.name, 0) <= 1

    def typed(self, value: Value, kind: ValueType) -> Value:
        """`value` with the type that MindSpore recorded for it; Tensors are also declared in the graph."""
        if isinstance(value, Tensor):
            if isinstance(kind, TensorType):
                value = replace(value, shape=kind.shape, dtype=kind.dtype)
                self.declare(value)
            elif isinstance(kind, ScalarType):
                value = replace(value, shape=(), scalar=True)
        elif isinstance(value, tuple):
            items = getattr(kind, "items", None)
            if items is not None and len(items) == len(value):
                value = tuple(self.typed(v, k) for v, k in zip(value, items, strict=True))
        return value

    def output(self, tensor: Tensor, name: str) -> Tensor:
        """`tensor` under the name of a graph output."""
        name = self.fresh(name)
        self.nodes.append(helper.make_node("Identity", [tensor.name], [name], name=name))
        return replace(tensor, name=name)

    def declare(self, tensor: Tensor) -> None:
        """Record a tensor's type in the graph, for whoever cuts it later."""
        self.value_infos.append(value_info(tensor))

    def fresh(self, stem: str) -> str:
        """A name that nothing in this graph has yet."""
        name, count = stem, 1
        while name in self._names:
            count += 1
            name = f"{stem}_{count}"
        self._names.add(name)
        return name

    def graph(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> GraphProto:
        """Everything built so far as one graph."""
        return helper.make_graph(
            self.nodes, "model", [value_info(t) for t in inputs], [value_info(t) for t in outputs],
            initializer=self.initializers, value_info=self.value_infos)

    def _label(self, op_type: str) -> str:
        return self.node.label if self.node else op_type

    def _constant(self, key: Any, array: NDArray[Any]) -> Tensor:
        if key not in self._constants:
            self._alive.append(array)
            name = self.fresh("constant")
            data = np.asarray(array).tobytes()
            self.initializers.append(TensorProto(
                name=name, data_type=dtypes.to_onnx(array.dtype), dims=array.shape, raw_data=data))
            self._initialized.add(name)
            self._constants[key] = Tensor(name, array.dtype, array.shape)
        return self._constants[key]


def _default(value: bool | int | float) -> Any:
    if isinstance(value, bool):
        return np.bool_
    return np.int64 if isinstance(value, int) else np.float32


def value_info(tensor: Tensor) -> ValueInfoProto:
    """A tensor's name and type as ONNX declares them; unknown dimensions stay without a value."""
    shape = None if tensor.shape is None else [None if dim < 0 else dim for dim in tensor.shape]
    return helper.make_tensor_value_info(tensor.name, dtypes.to_onnx(tensor.dtype), shape)
