"""Widened graphs: a graph of bfloat16 in float32, for its proof.

onnxruntime has few operators of bfloat16 for a CPU, and numpy has no such type. A plan does
the same to graphs of any type, and float32 shows smaller errors.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir

from ...source_graph.source_graph import SourceGraph
from .write import Stored

_NARROW, _WIDE = ir.DataType.BFLOAT16, ir.DataType.FLOAT


def is_narrow(graph: SourceGraph) -> bool:
    """Whether a weight, an input or a result is of bfloat16."""
    inner = graph.model.graph
    values = (*inner.inputs, *inner.initializers.values())
    return any(value.dtype == _NARROW for value in values) or any(
        value.dtype == _NARROW for node in inner.all_nodes() for value in node.outputs
    )


def widened(graph: SourceGraph) -> SourceGraph:
    """The graph with float32 in the place of bfloat16; weights are converted when they are read."""
    model = graph.model.clone()
    for inner in model.graphs():
        for value in (*inner.inputs, *inner.initializers.values()):
            _widen(value)
        for node in inner:
            for value in node.outputs:
                _widen(value)
            for name, one in list(node.attributes.items()):
                if one.type == ir.AttributeType.TENSOR and one.as_tensor().dtype == _NARROW:
                    node.attributes[name] = ir.AttrTensor(name, wide_tensor(one.as_tensor()))
                elif _names_type(node, name) and one.as_int() == _NARROW:
                    node.attributes[name] = ir.AttrInt64(name, int(_WIDE))
    constants = {
        name: array.astype(np.float32) if array.dtype == _NARROW.numpy() else array
        for name, array in graph.constants.items()
    }
    return replace(graph, model=model, constants=constants)


def widened_weights(stored: Stored) -> Stored:
    """Weights of shards, converted when they are read."""
    return {key: wide_tensor(tensor) for key, tensor in stored.items()}


def _names_type(node: ir.Node, name: str) -> bool:
    return name in ("to", "dtype", "output_dtype", "stash_type") and (
        node.attributes[name].type == ir.AttributeType.INT
    )


def _widen(value: ir.Value) -> None:
    if value.dtype == _NARROW:
        value.type = ir.TensorType(_WIDE)  # the old one is that of the graph, too
    if value.const_value is not None:
        value.const_value = wide_tensor(value.const_value)


def wide_tensor(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    """A tensor of float32 in the place of one of bfloat16."""
    if tensor.dtype != _NARROW:
        return tensor

    def read() -> ir.TensorProtocol:
        return ir.tensor(tensor.numpy().astype(np.float32))

    return ir.LazyTensor(read, _WIDE, ir.Shape(tensor.shape.numpy()), name=tensor.name)
