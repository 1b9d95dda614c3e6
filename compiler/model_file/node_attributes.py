"""Attributes of nodes: checks those that onnxruntime takes as they come; names corrupt nodes."""

from __future__ import annotations

from onnx import ModelProto, NodeProto

from ...comm.errors import ModelError
from ..onnx_graph.onnx_values import all_nodes, subgraphs


def check_attributes(model: ModelProto, path: str) -> None:
    """ModelError, which names the node, for constants, branches, bodies and attributes of functions
    that are not as they have to be.
    """
    for node in all_nodes(model.graph.node):
        if not node.domain:
            try:
                _check_attributes(node)
                _check_graphs(node)
            except ValueError as error:
                raise corrupt_node(path, node, error) from error


def _check_attributes(node: NodeProto) -> None:
    """ValueError for a constant without a value, and for attributes of a function that is none."""
    if node.op_type == "Constant" and len(node.attribute) != 1:
        raise ValueError(f"it has {len(node.attribute)} attributes, expected its value alone")
    for one in node.attribute:
        if one.ref_attr_name:
            raise ValueError(
                f"its attribute '{one.name}' is that of a function, '{one.ref_attr_name}', and it "
                "is in none"
            )


def _check_graphs(node: NodeProto) -> None:
    """ValueError where branches or bodies take or give another number of values than the node."""
    takes, gives = len(node.input), len(node.output)
    wanted = {"If": (0, gives), "Loop": (takes, gives + 1), "Scan": (takes, gives)}
    if node.op_type not in wanted:
        return
    for graph in subgraphs(node):
        found = len(graph.input), len(graph.output)
        if found != wanted[node.op_type]:
            raise ValueError(
                "its graph '{}' takes {} and gives {} values, expected {} and {}".format(
                    graph.name, *found, *wanted[node.op_type]
                )
            )


def corrupt_node(path: str, node: NodeProto, error: Exception) -> ModelError:
    """The error for a node that is not as its operator wants it."""
    name = node.name or next(iter(node.output), "")
    reason = str(error).strip().splitlines()[0].rstrip(".")
    what = f"node {name} ({node.op_type})"
    return ModelError(f"{path}: {what} is corrupt: {reason}. Export or copy the model again.")
