"""Signatures of nodes: inputs, outputs and attributes are those that ONNX's operator has.

onnxruntime refuses other nodes. Checked here, they are refused by what slices and converts, too.
onnx's table of operators, which it makes at the first question, takes 5 MB: ranks of onnxruntime
leave the check to that.
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

from ..onnx_graph.onnx_values import all_nodes
from .node_attributes import corrupt_node

_NEWEST = defs.onnx_opset_version()


def check_signatures(model: ModelProto, path: str) -> None:
    """ModelError, which names the node, where a node is not as its operator wants it.

    Operators that ONNX does not know are left to what runs them.
    """
    version = {one.domain: one.version for one in model.opset_import}.get("", 0)
    if not 0 < version <= _NEWEST:
        return
    context = CheckerContext()
    context.ir_version = IR_VERSION
    context.opset_imports = {"": version}
    for node in all_nodes(model.graph.node):
        if not node.domain and _is_known(node.op_type, version):
            try:
                checker.check_node(_alone(node), context)
            except checker.ValidationError as error:
                raise corrupt_node(path, node, error) from error


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
