"""Passed values: outputs that are inputs or weights have the types of these.

A file states their types twice. The statement about the output is a hint, as for every output.
"""

from __future__ import annotations

from onnx import GraphProto, TypeProto, helper


def type_passed_values(graph: GraphProto) -> None:
    """Give outputs of a graph that are its inputs or weights the types of these, in place."""
    types: dict[str, TypeProto] = {
        one.name: helper.make_tensor_type_proto(one.data_type, one.dims)
        for one in graph.initializer
    }
    types |= {info.name: info.type for info in graph.input}
    for info in (*graph.output, *graph.value_info):
        if info.name in types:
            info.type.CopyFrom(types[info.name])
