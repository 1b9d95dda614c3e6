"""Signatures of nodes: inputs, outputs and attributes are those that ONNX's operator has.

onnxruntime refuses other nodes. Checked here, they are refused by what slices and converts, too.
onnx's table of operators, which it makes at the first question, takes 5 MB: a rank of onnxruntime
leaves most of the check to that.
"""

from __future__ import annotations

from functools import cache

from onnx import (
    IR_VERSION,
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    checker,
    defs,
)
from onnx.onnx_cpp2py_export.checker import CheckerContext

from ...comm.errors import ModelError
from ..onnx_graph.onnx_values import all_nodes, subgraphs

_NEWEST = defs.onnx_opset_version()


def check_signatures(model: ModelProto, path: str, whole: bool) -> None:
    """ModelError, which names the node, where a node is not as its operator wants it.

    Operators that ONNX does not know are left to what runs them. Without `whole`, onnxruntime is to
    check inputs, outputs and the names of attributes.
    """
    version = {one.domain: one.version for one in model.opset_import}.get("", 0)
    if not 0 < version <= _NEWEST:
        return
    context = CheckerContext()
    context.ir_version = IR_VERSION
    context.opset_imports = {"": version}
    for node in all_nodes(model.graph.node):
        if not node.domain:
            try:
                if whole and _is_known(node.op_type, version):
                    checker.check_node(_alone(node), context)
                _check_attributes(node)
                _check_graphs(node)
            except (checker.ValidationError, ValueError) as error:
                raise ModelError(_text(path, node, error)) from error


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


@cache
def _is_known(operator: str, version: int) -> bool:
    try:
        return not defs.get_schema(operator, version).deprecated
    except (defs.SchemaError, TypeError):  # a name that is not UTF-8 is bytes
        return False


def _alone(node: NodeProto) -> NodeProto:
    """The node without what its branches and bodies have inside; their nodes are checked
    themselves, and so are tensors.
    """
    if not any(one.HasField("g") or one.HasField("t") for one in node.attribute):
        return node
    alone = NodeProto(op_type=node.op_type, name=node.name)
    alone.input.extend(node.input)
    alone.output.extend(node.output)
    for one in node.attribute:
        if one.HasField("g"):
            inner = GraphProto(name="inner")
            alone.attribute.append(AttributeProto(name=one.name, type=one.type, g=inner))
        elif not one.HasField("t"):
            alone.attribute.append(one)
        else:
            tensor = TensorProto(data_type=TensorProto.FLOAT, dims=[0])
            alone.attribute.append(AttributeProto(name=one.name, type=one.type, t=tensor))
    return alone


def _text(path: str, node: NodeProto, error: Exception) -> str:
    name = node.name or next(iter(node.output), "")
    reason = str(error).strip().splitlines()[0].rstrip(".")
    what = f"node {name} ({node.op_type})"
    return f"{path}: {what} is corrupt: {reason}. Export or copy the model again."
