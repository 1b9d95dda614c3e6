"""Nodes that are not as their operators want them: one sentence that names the node."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import AttributeProto, NodeProto, helper
from onnx_models import model, node

from rankmesh.comm.errors import ModelError
from rankmesh.compiler.model_file.model_format import load_model

pytestmark = pytest.mark.pure


def load(folder: Path, made: NodeProto) -> None:
    content = model([made], {"x": [4]}, {"y": None})
    (folder / "m.onnx").write_bytes(content.SerializeToString())
    load_model(str(folder / "m.onnx"))


def refers(made: NodeProto, name: str) -> NodeProto:
    kind = AttributeProto.FLOAT
    made.attribute.append(AttributeProto(name="alpha", ref_attr_name=name, type=kind))
    return made


def branching(outputs: int) -> NodeProto:
    infos = [helper.make_empty_tensor_value_info("z")] * outputs
    side = helper.make_graph([node("Relu", "x", "z")], "side", [], infos)
    return helper.make_node("If", ["x"], ["y"], "If y", then_branch=side, else_branch=side)


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (node("Relu", "x x", "y"), "has input size 2"),
        (node("Add", "x", "y"), "has input size 1"),
        (node("Relu", "x", "y z"), "has output size 2"),
        (helper.make_node("Add", ["x", ""], ["y"], "Add y"), "empty"),
        (node("Relu", "x", "y", alpha=0.5), "Unrecognized attribute: alpha"),
        (node("LeakyRelu", "x", "y", alpha=1), "attribute 'alpha'|alpha"),
        (node("Cast", "x", "y"), "Required attribute 'to' is missing"),
        (helper.make_node("Constant", [], ["y"], "Constant y"), "has 0 attributes"),
        (refers(node("LeakyRelu", "x", "y"), "slope"), "of a function, 'slope', and it is in none"),
        (branching(2), "its graph 'side' takes 0 and gives 2 values, expected 0 and 1"),
    ],
    ids=lambda one: one if isinstance(one, str) else one.op_type,
)
def test_a_node_that_its_operator_does_not_allow(
    tmp_path: Path, made: NodeProto, reason: str
) -> None:
    with pytest.raises(ModelError, match=f"m.onnx: node {made.op_type} y.*corrupt: .*{reason}"):
        load(tmp_path, made)


def test_nodes_inside_branches_are_checked(tmp_path: Path) -> None:
    branch = helper.make_graph(
        [node("Relu", "x x", "z")], "", [], [helper.make_empty_tensor_value_info("z")]
    )
    condition = helper.make_node("Constant", [], ["c"], value=helper.make_tensor("", 9, [], [True]))
    choice = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    content = model([condition, choice], {"x": [4]}, {"y": None})
    (tmp_path / "m.onnx").write_bytes(content.SerializeToString())
    with pytest.raises(ModelError, match="node Relu z .*has input size 2"):
        load_model(str(tmp_path / "m.onnx"))


@pytest.mark.parametrize(
    "made",
    [
        node("Nonesuch", "x", "y"),
        node("SimplifiedLayerNormalization", "x x", "y"),
        helper.make_node("Relu", ["x"], ["y"], domain="ai.onnx"),
        helper.make_node("Clip", ["x", "", ""], ["y"]),
        helper.make_node("FusedMatMul", ["x", "x"], ["y"], domain="com.microsoft", alpha=0.5),
    ],
    ids=lambda one: one.op_type,
)
def test_other_nodes_are_left_alone(tmp_path: Path, made: NodeProto) -> None:
    load(tmp_path, made)
