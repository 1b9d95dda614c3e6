"""The element types of the values of an ONNX graph, and which of an operator's can change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from .onnx_values import subgraphs

FLOAT, HALF, BFLOAT16 = int(TensorProto.FLOAT), int(TensorProto.FLOAT16), int(TensorProto.BFLOAT16)
SOURCES = {FLOAT: {HALF, BFLOAT16}, HALF: {FLOAT}}  # what is converted to each type
_WORDS = {FLOAT: "tensor(float)", HALF: "tensor(float16)"}
_MAKES_FLOATS = {"Cast", "CastLike", "Constant", "ConstantOfShape", "EyeLike", "RandomNormal", "RandomUniform",
                 "RandomNormalLike", "RandomUniformLike", "DequantizeLinear"}


def has_halves(graph: GraphProto) -> bool:
    """Whether any value of a graph, its branches and its bodies may be a float16 or bfloat16."""
    halves = (HALF, BFLOAT16)
    if any(t.data_type in halves for t in graph.initializer):
        return True
    if any(i.type.tensor_type.elem_type in halves for i in graph.input):
        return True
    return any(_makes_halves(node) or any(map(has_halves, subgraphs(node))) for node in graph.node)


def _makes_halves(node: NodeProto) -> bool:
    return node.op_type in _MAKES_FLOATS and any(
        a.i in (HALF, BFLOAT16) or a.t.data_type in (HALF, BFLOAT16) for a in node.attribute)


def with_types(model: ModelProto) -> GraphProto:
    """The graph with the element types of all its values, as onnx infers them; the weights' data are left out."""
    graph = model.graph
    weights = [helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in graph.initializer]
    probe = helper.make_graph(graph.node, "types", [*graph.input, *weights], graph.output)
    inferred = onnx.shape_inference.infer_shapes(
        helper.make_model(probe, opset_imports=model.opset_import, ir_version=model.ir_version))
    return inferred.graph


def element_types(graph: GraphProto) -> dict[str, int]:
    """The element types that a graph states for its values, those of its branches and bodies apart."""
    infos: list[ValueInfoProto] = [*graph.input, *graph.value_info, *graph.output]
    found = {info.name: int(info.type.tensor_type.elem_type) for info in infos}
    found.update({tensor.name: tensor.data_type for tensor in graph.initializer})
    return {name: kind for name, kind in found.items() if kind}


class Variables:
    """Those type variables of a node's operator (T, T1, ...) that can become `target`; none where a type is unknown."""

    def __init__(self, node: NodeProto, target: int, kind: Callable[[str], int], versions: Mapping[str, int]) -> None:
        self._node = node
        self._schema = _schema(node, versions) if all(kind(name) for name in node.output if name) else None
        self._names: set[str] = set()
        if self._schema:
            bound: dict[str, set[int]] = {}
            for index, name in enumerate(node.input):
                if name:
                    bound.setdefault(_formal(self._schema.inputs, index), set()).add(kind(name))
            allowed = {c.type_param_str for c in self._schema.type_constraints
                       if _WORDS[target] in c.allowed_type_strs}
            self._names = {variable for variable, kinds in bound.items() if variable in allowed
                           and kinds & SOURCES[target] and kinds <= {*SOURCES[target], target}}

    def __bool__(self) -> bool:
        return bool(self._names)

    def inputs(self) -> set[int]:
        """The places of the node's inputs that are of these variables."""
        assert self._schema
        return {i for i, name in enumerate(self._node.input) if name and _formal(self._schema.inputs, i) in self._names}

    def outputs(self) -> list[tuple[int, str]]:
        """The node's outputs of these variables, each with its place."""
        assert self._schema
        return [(i, name) for i, name in enumerate(self._node.output)
                if name and _formal(self._schema.outputs, i) in self._names]


def _schema(node: NodeProto, versions: Mapping[str, int]) -> onnx.defs.OpSchema | None:
    try:
        return onnx.defs.get_schema(node.op_type, versions.get(node.domain, 1), node.domain)
    except onnx.defs.SchemaError:  # an operator that onnx does not know stays as it is
        return None


def _formal(parameters: Sequence[onnx.defs.OpSchema.FormalParameter], index: int) -> str:
    return str(parameters[min(index, len(parameters) - 1)].type_str)
