"""Graph conversion: the nodes of an ONNX graph, one by one, as primitives of MindSpore."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ...comm.errors import ModelError
from ..element_types import dtypes
from ..element_types.value_types import TensorType
from ..source_graph.dims import fixed
from ..source_graph.source_graph import SourceGraph, operator
from .control_flow import CONTROL_FLOW
from .expansion.expand import FAULT
from .graph_names import name_of, needed_nodes
from .mindir.graph_builder import GraphBuilder
from .mindir.values import MindirValue
from .operators.node_conversion import NodeConversion
from .operators.registry import conversions

_HALF, _SINGLE = np.dtype(np.float16), np.dtype(np.float32)
_SMALL = 64
"""Elements of the largest initializer that becomes a constant of the graph, not a parameter."""


@dataclass(frozen=True, slots=True)
class GraphWeight:
    """An initializer that is a parameter, and the dtype in which it is stored."""

    value: ir.Value
    dtype: np.dtype[np.generic]


class GraphConversion:
    """One conversion of a source graph."""

    def __init__(
        self, source: SourceGraph, path: str, builder: GraphBuilder, half_weights: bool = False
    ) -> None:
        """With `half_weights` parameters of float32 become float16, which the graph casts."""
        self._source = source
        self._path = path
        self._half = half_weights
        self.builder = builder
        self.weights: list[GraphWeight] = []
        """The parameters, in the order of the file."""

        self._values: dict[str, MindirValue] = {}
        self._faults: list[str] = []
        self._opset = source.model.opset_imports.get("", 1)

    def run(self, results: int) -> None:
        """Convert all nodes; the first `results` outputs are those of the model, and all others
        are only computed. ModelError names every node that has no counterpart.
        """
        graph = self._source.model.graph
        for value in graph.inputs:
            self._values[name_of(value)] = self._input(value)
        self.convert_nodes(list(graph), graph.outputs)
        if self._faults:
            raise ModelError(
                f"{self._path}: cannot be converted:\n  " + "\n  ".join(sorted(self._faults))
            )
        first, *rest = [self.value(value) for value in graph.outputs]
        for one in rest[results - 1 :]:
            first = self.builder.after(first, one)
        self.builder.returned([first, *rest[: results - 1]])

    def _input(self, value: ir.Value) -> MindirValue:
        try:
            self.type(value)
        except ValueError as error:
            self._faults.append(f"the input '{name_of(value)}': {error}")
        return self.builder.input(name_of(value), self._presumed(value))

    def convert_nodes(self, nodes: Sequence[ir.Node], outputs: Sequence[ir.Value]) -> None:
        """Add those nodes that the outputs need, but for those that compute constants."""
        for node in needed_nodes(nodes, outputs, self._source.constants):
            self._convert(node)

    @contextmanager
    def scope(self, given: Mapping[str, MindirValue]) -> Iterator[None]:
        """The inside of a function, which knows the values that it is given, and constants."""
        outer = self._values
        constants = {key: one for key, one in outer.items() if one.constant is not None}
        self._values = {**constants, **given}
        try:
            yield
        finally:
            self._values = outer

    def _convert(self, node: ir.Node) -> None:
        try:
            results = self._results(node)
        except (ValueError, TypeError) as error:
            self._faults.append(f"{operator(node)} (node {node.name}): {error}")
            return self._unknown(node)
        for value, result in zip(node.outputs, results, strict=False):
            self._values[name_of(value)] = result

    def _results(self, node: ir.Node) -> Sequence[MindirValue]:
        """The outputs of a node; ValueError where it cannot be converted."""
        name = operator(node)
        if name in CONTROL_FLOW:
            return CONTROL_FLOW[name](self, node)
        found = conversions().get(name)
        if found is None:
            raise ValueError(node.meta.get(FAULT, "MindSpore has no such operator"))
        inputs = [None if one is None else self.value(one) for one in node.inputs]
        types = [self.type(one) for one in node.outputs]
        conversion = NodeConversion(self.builder, types, self._opset)
        attributes = {key: one.value for key, one in node.attributes.items()}
        results = found.convert(conversion, inputs, attributes)
        return [results] if isinstance(results, MindirValue) else results

    def _unknown(self, node: ir.Node) -> None:
        """Go on behind a node that cannot be converted, to find all others."""
        for value in node.outputs:
            self._values[name_of(value)] = MindirValue("", self._presumed(value))

    def _presumed(self, value: ir.Value) -> TensorType:
        """The type of a value, or any, which only serves to find more faults."""
        try:
            return self.type(value)
        except ValueError:
            return TensorType(_SINGLE, ())

    def value(self, value: ir.Value) -> MindirValue:
        """A value of the graph; a constant or a parameter when it is first used."""
        name = name_of(value)
        if name not in self._values:
            self._values[name] = self._initializer(value)
        return self._values[name]

    def _initializer(self, value: ir.Value) -> MindirValue:
        known = self._source.constants.get(name_of(value))
        held = value.const_value
        if known is None and held is not None and held.size <= _SMALL:
            known = held.numpy()
        if known is not None and known.dtype == object:
            raise ValueError(f"the constant '{name_of(value)}' has strings")
        if known is not None:
            return self.builder.constant(np.asarray(known))
        if held is None:
            raise ValueError(f"the value '{name_of(value)}' has no source")
        return self._parameter(value)

    def _parameter(self, value: ir.Value) -> MindirValue:
        kind = self.type(value)
        if not self._half or kind.dtype != dtypes.FLOAT32:
            self.weights.append(GraphWeight(value, kind.dtype))
            return self.builder.weight(name_of(value), kind)
        self.weights.append(GraphWeight(value, _HALF))
        stored = self.builder.weight(name_of(value), TensorType(_HALF, kind.shape))
        return self.builder.apply("Cast", stored, dtypes.to_type_id(kind.dtype), type=kind)

    def type(self, value: ir.Value) -> TensorType:
        """The type of a value; ValueError where its dtype is not known."""
        dims = self._source.dims.get(name_of(value))
        shape = None if dims is None else tuple(_size(fixed(one)) for one in dims)
        if value.dtype is None:
            raise ValueError(f"the type of the value '{name_of(value)}' is not known")
        if not isinstance(value.type, ir.TensorType) or value.dtype == ir.DataType.STRING:
            raise ValueError(f"it is of {value.type}, and MindSpore computes with numbers alone")
        return TensorType(dtypes.from_onnx(int(value.dtype)), shape)


def _size(size: int | None) -> int:
    return -1 if size is None else size
