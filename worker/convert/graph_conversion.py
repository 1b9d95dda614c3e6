"""Graph conversion: the nodes of an ONNX graph, one by one, as primitives of a MindIR graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ...comm.errors import ModelError
from ..mindir import dtypes
from ..mindir.graph import TensorType
from ..slicing.graph.dims import fixed
from ..slicing.graph.source_graph import SourceGraph, operator
from .mindir.builder import MindirBuilder
from .mindir.values import MindirValue
from .operators.node_conversion import NodeConversion
from .operators.registry import conversions

_HALF = np.dtype(np.float16)
_SMALL = 64
"""Elements of the largest initializer that becomes a constant of the graph, not a parameter."""


@dataclass(frozen=True, slots=True)
class GraphWeight:
    """An initializer that is a parameter, and the dtype in which it is stored."""

    value: ir.Value
    dtype: np.dtype[np.generic]


class GraphConversion:
    """One conversion of a source graph."""

    def __init__(self, source: SourceGraph, path: str, half_weights: bool = False) -> None:
        """With `half_weights` parameters of float32 become float16, which the graph casts."""
        self._source = source
        self._path = path
        self._half = half_weights
        self.builder = MindirBuilder("main")
        self.weights: list[GraphWeight] = []
        """The parameters, in the order of the file."""

        self._values: dict[str, MindirValue] = {}
        self._faults: list[str] = []
        self._opset = source.model.opset_imports.get("", 1)

    def run(self) -> None:
        """Convert all nodes. ModelError names every node that has no counterpart."""
        graph = self._source.model.graph
        for value in graph.inputs:
            self._values[_name(value)] = self.builder.input(_name(value), self._type(value))
        for node in needed_nodes(self._source):
            self._convert(node)
        if self._faults:
            raise ModelError(
                f"{self._path}: cannot become MindIR:\n  " + "\n  ".join(sorted(self._faults))
            )
        self.builder.returned([self._value(value) for value in graph.outputs])

    def _convert(self, node: ir.Node) -> None:
        name = operator(node)
        found = conversions().get(name)
        if found is None:
            self._faults.append(f"{name} (node {node.name}): MindSpore has no such operator")
            return self._unknown(node)
        try:
            inputs = [None if one is None else self._value(one) for one in node.inputs]
            types = [self._type(one) for one in node.outputs]
            conversion = NodeConversion(self.builder, types, self._opset)
            attributes = {key: one.value for key, one in node.attributes.items()}
            results = found.convert(conversion, inputs, attributes)
        except (ValueError, TypeError) as error:
            self._faults.append(f"{name} (node {node.name}): {error}")
            return self._unknown(node)
        many = [results] if isinstance(results, MindirValue) else results
        for value, result in zip(node.outputs, many, strict=False):
            self._values[_name(value)] = result

    def _unknown(self, node: ir.Node) -> None:
        """Go on behind a node that cannot be converted, to find all others."""
        for value in node.outputs:
            self._values[_name(value)] = MindirValue("", self._type(value))

    def _value(self, value: ir.Value) -> MindirValue:
        """A value of the graph; a constant or a parameter when it is first used."""
        name = _name(value)
        if name not in self._values:
            self._values[name] = self._initializer(value)
        return self._values[name]

    def _initializer(self, value: ir.Value) -> MindirValue:
        known = self._source.constants.get(_name(value))
        held = value.const_value
        if known is None and held is not None and held.size <= _SMALL:
            known = held.numpy()
        if known is not None:
            return self.builder.constant(np.asarray(known))
        if held is None:
            raise ValueError(f"the value '{_name(value)}' has no source")
        return self._parameter(value)

    def _parameter(self, value: ir.Value) -> MindirValue:
        kind = self._type(value)
        if not self._half or kind.dtype != dtypes.FLOAT32:
            self.weights.append(GraphWeight(value, kind.dtype))
            return self.builder.weight(_name(value), kind)
        self.weights.append(GraphWeight(value, _HALF))
        stored = self.builder.weight(_name(value), TensorType(_HALF, kind.shape))
        return self.builder.apply("Cast", stored, dtypes.to_type_id(kind.dtype), type=kind)

    def _type(self, value: ir.Value) -> TensorType:
        dims = self._source.dims.get(_name(value))
        shape = None if dims is None else tuple(_size(fixed(one)) for one in dims)
        if value.dtype is None:
            raise ValueError(f"the type of the value '{_name(value)}' is not known")
        return TensorType(dtypes.from_onnx(int(value.dtype)), shape)


def needed_nodes(source: SourceGraph) -> list[ir.Node]:
    """The nodes that the outputs need, in order; those that compute constants are left out."""
    graph = source.model.graph
    wanted = {_name(value) for value in graph.outputs}
    found = []
    for node in reversed(list(graph)):
        open_outputs = {_name(one) for one in node.outputs} - set(source.constants)
        if open_outputs & wanted:
            found.append(node)
            wanted |= {_name(one) for one in node.inputs if one is not None}
    return found[::-1]


def _size(size: int | None) -> int:
    return -1 if size is None else size


def _name(value: ir.Value) -> str:
    assert value.name is not None
    return value.name
