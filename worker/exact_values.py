"""The values of a graph that float16 would spoil."""

from __future__ import annotations

from onnx import GraphProto, TensorProto

_INTEGERS = {TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64, TensorProto.UINT8,
             TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64}
# A float that becomes an integer is a position or a count, the argument of a sine an angle: float16 would spoil both.
_PERIODIC = {"Sin", "Cos", "Tan"}
_CARRIES = {"Abs", "Add", "Cast", "Ceil", "Clip", "Concat", "Div", "Expand", "Floor", "Identity", "Max", "Min", "Mod",
            "Mul", "Neg", "Reshape", "Round", "Slice", "Squeeze", "Sub", "Transpose", "Unsqueeze"}


def exact_values(graph: GraphProto) -> set[str]:
    """The values that positions and angles are computed from by simple arithmetic, and what sines make of them."""
    exact: set[str] = set()
    for node in reversed(graph.node):
        counts = node.op_type == "Cast" and any(a.name == "to" and a.i in _INTEGERS for a in node.attribute)
        if counts or node.op_type in _PERIODIC:
            exact.update((*node.input, *node.output))
        elif node.op_type in _CARRIES and not exact.isdisjoint(node.output):
            exact.update(node.input)
    return exact
