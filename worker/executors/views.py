"""Views: outputs that are other values in another shape, had without copying them.

A Dense on [batch, length, features] is Reshape, Gemm and Reshape, and onnxruntime copies the result
of a Reshape that is an output: 26 MB of logits of GPT-2, two percent of a request. So the product
is the output instead, in the same memory.
"""

from __future__ import annotations

import struct
from collections import Counter
from math import prod
from typing import NamedTuple

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper


class OutputView(NamedTuple):
    """The matrix whose memory an output is, and the shapes of both."""

    matrix: str
    matrix_shape: tuple[int, int]
    shape: tuple[int, ...]


def output_views(model: ModelProto) -> dict[str, OutputView]:
    """The outputs of a model that are Reshapes of a Gemm's result that nothing else takes, by name.

    All shapes must be known: those that an output declares, that the Reshape wants, and of the
    weight.
    """
    graph = model.graph
    makers = {name: node for node in graph.node for name in node.output}
    found = {}
    for info in graph.output:
        maker = makers.get(info.name)
        view = (
            _view(graph, maker, makers)
            if maker is not None and maker.op_type == "Reshape"
            else None
        )
        dims = info.type.tensor_type.shape.dim
        if view and tuple(dim.dim_value for dim in dims) == view.shape:
            found[info.name] = view
    if not found:
        return found
    uses = Counter(name for node in graph.node for name in node.input)
    uses.update(info.name for info in graph.output)
    return {
        name: view
        for name, view in found.items()
        if uses[view.matrix] == uses[name] == 1 and not _nested(graph)
    }


def without_copies(model: ModelProto) -> ModelProto:
    """The model with the matrices as outputs where there are such views, else the model itself."""
    views = output_views(model)
    if not views:
        return model
    made = ModelProto()
    made.CopyFrom(model)
    kept = [node for node in made.graph.node if not views.keys() & set(node.output)]
    del made.graph.node[:]
    made.graph.node.extend(kept)
    for info in made.graph.output:
        view = views.get(info.name)
        if view:
            kind = info.type.tensor_type.elem_type
            info.CopyFrom(helper.make_tensor_value_info(view.matrix, kind, view.matrix_shape))
    return made


def _view(graph: GraphProto, reshape: NodeProto, makers: dict[str, NodeProto]) -> OutputView | None:
    gemm = makers.get(reshape.input[0])
    if gemm is None or gemm.op_type != "Gemm" or gemm.domain or reshape.domain:
        return None
    records = {
        record.name: record
        for record in graph.initializer
        if record.name in (gemm.input[1], reshape.input[1])
    }
    weight, target = records.get(gemm.input[1]), records.get(reshape.input[1])
    shape = _numbers(target) if target is not None else ()
    if weight is None or len(weight.dims) != 2 or min(shape, default=0) <= 0:
        return None
    transposed = any(attribute.name == "transB" and attribute.i for attribute in gemm.attribute)
    columns = weight.dims[0 if transposed else 1]
    if columns <= 0 or prod(shape) % columns:
        return None
    return OutputView(gemm.output[0], (prod(shape) // columns, columns), shape)


def _numbers(record: TensorProto) -> tuple[int, ...]:
    """The numbers of a constant of int64 inside the model; () for any other."""
    count = prod(record.dims)
    if record.data_type != TensorProto.INT64 or len(record.raw_data) != 8 * count:
        return ()
    return struct.unpack(f"<{count}q", record.raw_data)


def _nested(graph: GraphProto) -> bool:
    """Whether branches or bodies may read values of the graph unseen."""
    return any(
        attribute.HasField("g") or attribute.graphs
        for node in graph.node
        for attribute in node.attribute
    )
