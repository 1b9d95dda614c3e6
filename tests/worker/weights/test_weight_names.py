"""The weight that a name means."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from onnx import NodeProto, helper
from onnx_models import loaded

from rankmesh.comm.errors import InputError
from rankmesh.worker.partition.cut import make_plan
from rankmesh.worker.weights.plan_weights import weights_of
from rankmesh.worker.weights.updates.names import WeightNames

pytestmark = pytest.mark.pure


def product(
    name: str, weight: str, source: str, result: str, op_type: str = "MatMul", also: str = ""
) -> NodeProto:
    return helper.make_node(op_type, [source, weight], [result], name=name, doc_string=also)


def names(*nodes: NodeProto, variable: Mapping[str, str] | None = None) -> WeightNames:
    """Of products of 16 x 16 with the weights a, b and c."""
    constants = {name: np.zeros((16, 16), np.float32) for name in "abc"}
    plan = make_plan(loaded(nodes, {"x": [16, 16]}, {"y": [16, 16]}, {}, constants), 0, 1)
    return WeightNames(plan, list(weights_of(plan)), variable or {})


_CHAIN = (
    product("Default/fc1-Dense/MatMul-op0", "a", "x", "h"),
    product("Default/encoder-Net/layers-CellList/0-Layer/fc2-Dense/MatMul-op1", "b", "h", "i"),
    product("/blocks.0/out/MatMul", "c", "i", "y"),
)


@pytest.mark.parametrize(
    ("name", "weight"),
    [
        ("a", "a"),
        ("fc1.weight", "a"),
        ("unet.fc1.lora.down.weight", "a"),
        ("/fc1", "a"),
        ("fc1.alpha", "a"),
        ("/blocks.0/out", "c"),
        ("blocks.0.out.weight", "c"),
    ],
)
def test_parameters_then_nodes(name: str, weight: str) -> None:
    assert names(*_CHAIN).find(name) == weight


@pytest.mark.parametrize("name", ["fc1.bias", "fc1", "", "d", "fc3.weight", "weight"])
def test_names_that_mean_nothing(name: str) -> None:
    with pytest.raises(InputError, match=f"has no weight '{name}'"):
        names(*_CHAIN).find(name)


def test_a_model_of_small_tensors_tells_that_these_are_constants() -> None:
    small, shape = {"a": np.zeros((4, 4), np.float32)}, [4, 4]
    model = loaded([product("n", "a", "x", "y")], {"x": shape}, {"y": shape}, {}, small)
    plan = make_plan(model, 0, 1)
    with pytest.raises(InputError, match="has no weight 'a'; it has none .small tensors"):
        WeightNames(plan, [*weights_of(plan)], {}).find("a")


def test_a_parameters_own_name_comes_first() -> None:
    assert (
        names(
            product("Default/b-Dense/MatMul-op0", "a", "x", "h"), product("n", "b", "h", "y")
        ).find("b")
        == "b"
    )


def test_a_turned_weight_and_a_merged_node() -> None:
    found = names(
        helper.make_node("Transpose", ["a"], ["t"]),
        product("Default/add-Bias/BiasAdd-op1", "t", "x", "y", also="Default/fc-Dense/MatMul-op0"),
    )
    assert found.find("fc.weight") == found.find("add.weight") == "a"


def test_a_node_with_two_weights() -> None:
    twice = (
        product("Default/fc-Dense/MatMul-op0", "a", "x", "h"),
        product("Default/fc-Dense/MatMul-op1", "b", "h", "y"),
    )
    with pytest.raises(
        InputError, match=r"means the node /fc of m.onnx, which uses \['a', 'b'\]: name one of them"
    ):
        names(*twice).find("fc.weight")


def test_listed_names() -> None:
    found = names(*_CHAIN, variable={"lora": "/fc1", "encoder.layers.0.fc2.weight": ""})
    assert found.listed == ["a", "b"]
    assert found.find("lora") == "a"
    with pytest.raises(InputError, match="has no weight 'lora', nor a node /fc9 with one"):
        names(*_CHAIN, variable={"lora": "/fc9"})
