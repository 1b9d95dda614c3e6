"""Element types: those of an ONNX graph's values, and those that may change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from ...comm.errors import ModelError
from .onnx_values import subgraphs

FLOAT, HALF, BFLOAT16 = int(TensorProto.FLOAT), int(TensorProto.FLOAT16), int(TensorProto.BFLOAT16)
NARROW = (HALF, BFLOAT16)
SOURCES = {FLOAT: set(NARROW), HALF: {FLOAT}, BFLOAT16: {FLOAT}}
"""The element types that are converted to each type."""
TYPE_NAMES = {FLOAT: "tensor(float)", HALF: "tensor(float16)", BFLOAT16: "tensor(bfloat16)"}
"""Element types as the schemas of operators write them."""

_MAKES_FLOATS = {
    "Cast",
    "CastLike",
    "Constant",
    "ConstantOfShape",
    "EyeLike",
    "RandomNormal",
    "RandomUniform",
    "RandomNormalLike",
    "RandomUniformLike",
    "DequantizeLinear",
}


def has_halves(graph: GraphProto) -> bool:
    """Whether any value of a graph, its branches and its bodies may be a float16 or bfloat16."""
    if any(t.data_type in NARROW for t in graph.initializer):
        return True
    if any(i.type.tensor_type.elem_type in NARROW for i in graph.input):
        return True
    return any(_makes_halves(node) or any(map(has_halves, subgraphs(node))) for node in graph.node)


def _makes_halves(node: NodeProto) -> bool:
    return node.op_type in _MAKES_FLOATS and any(
        a.i in NARROW or a.t.data_type in NARROW for a in node.attribute
    )


def with_types(model: ModelProto) -> GraphProto:
    """The graph with the element types of all values, as onnx infers them, without the weights'
    data. Raises ModelError where onnx does not know the domain of a node.
    """
    graph = model.graph
    weights = [
        helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in graph.initializer
    ]
    probe = helper.make_graph(graph.node, "types", [*graph.input, *weights], graph.output)
    whole = helper.make_model(probe, opset_imports=model.opset_import, ir_version=model.ir_version)
    try:
        return onnx.shape_inference.infer_shapes(whole).graph
    except onnx.shape_inference.InferenceError as error:
        raise ModelError(f"the types of its values cannot be inferred: {error}") from error


def element_types(graph: GraphProto) -> dict[str, int]:
    """The element types that a graph states for its own values, without those of branches and
    bodies.
    """
    infos: list[ValueInfoProto] = [*graph.input, *graph.value_info, *graph.output]
    found = {info.name: int(info.type.tensor_type.elem_type) for info in infos}
    found.update({tensor.name: tensor.data_type for tensor in graph.initializer})
    return {name: kind for name, kind in found.items() if kind}


class TypeVariables:
    """The type variables (T, T1, ...) of a node's operator that can become `target`.

    There are none where the type of a result is unknown.
    """

    def __init__(
        self, node: NodeProto, target: int, kind: Callable[[str], int], versions: Mapping[str, int]
    ) -> None:
        self._node = node
        self._schema = (
            _schema(node, versions) if all(kind(name) for name in node.output if name) else None
        )
        self._names: set[str] = set()
        if self._schema:
            bound: dict[str, set[int]] = {}
            for index, name in enumerate(node.input):
                if name:
                    bound.setdefault(_formal(self._schema.inputs, index), set()).add(kind(name))
            allowed = {
                c.type_param_str
                for c in self._schema.type_constraints
                if TYPE_NAMES[target] in c.allowed_type_strs
            }
            self._names = {
                variable
                for variable, kinds in bound.items()
                if variable in allowed
                and kinds & SOURCES[target]
                and kinds <= {*SOURCES[target], target}
            }

    def __bool__(self) -> bool:
        return bool(self._names)

    def inputs(self) -> set[int]:
        """The indices of the node's inputs that are of these variables."""
        assert self._schema
        return {
            i
            for i, name in enumerate(self._node.input)
            if name and _formal(self._schema.inputs, i) in self._names
        }

    def outputs(self) -> list[tuple[int, str]]:
        """The node's outputs of these variables, each with its index."""
        assert self._schema
        return [
            (i, name)
            for i, name in enumerate(self._node.output)
            if name and _formal(self._schema.outputs, i) in self._names
        ]


def _schema(node: NodeProto, versions: Mapping[str, int]) -> onnx.defs.OpSchema | None:
    try:
        return onnx.defs.get_schema(node.op_type, versions.get(node.domain, 1), node.domain)
    except onnx.defs.SchemaError:  # an operator that onnx does not know stays as it is
        return None


def _formal(parameters: Sequence[onnx.defs.OpSchema.FormalParameter], index: int) -> str:
    return str(parameters[min(index, len(parameters) - 1)].type_str)


_INTEGERS = {
    TensorProto.INT8,
    TensorProto.INT16,
    TensorProto.INT32,
    TensorProto.INT64,
    TensorProto.UINT8,
    TensorProto.UINT16,
    TensorProto.UINT32,
    TensorProto.UINT64,
}
# A float that becomes an integer is a position or a count, the argument of a sine an angle: float16
# would spoil both.
_PERIODIC = {"Sin", "Cos", "Tan"}
_CARRIES = {
    "Abs",
    "Add",
    "Cast",
    "Ceil",
    "Clip",
    "Concat",
    "Div",
    "Expand",
    "Floor",
    "Identity",
    "Max",
    "Min",
    "Mod",
    "Mul",
    "Neg",
    "Reshape",
    "Round",
    "Slice",
    "Squeeze",
    "Sub",
    "Transpose",
    "Unsqueeze",
}


def fp16_unsafe(graph: GraphProto) -> set[str]:
    """The values that float16 would spoil: positions and angles, and the results of sines.

    The values from which these are computed by simple arithmetic count too.
    """
    exact: set[str] = set()
    for node in reversed(graph.node):
        counts = node.op_type == "Cast" and any(
            a.name == "to" and a.i in _INTEGERS for a in node.attribute
        )
        if counts or node.op_type in _PERIODIC:
            exact.update((*node.input, *node.output))
        elif node.op_type in _CARRIES and not exact.isdisjoint(node.output):
            exact.update(node.input)
    return exact
