"""Which weights a session takes in when it is made."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_models import graph, node

from rankmesh.compiler.onnx_graph.constant_folding import folded

pytestmark = pytest.mark.pure


def of(*nodes: object, **constants: np.ndarray) -> set[str]:
    arrays = {"w": np.zeros((2, 2), np.float32), "shape": np.array([4]), **constants}
    return folded(graph(nodes, constants=arrays), {"w", "v"} & arrays.keys())  # type: ignore[arg-type]


def test_operands_of_products_are_not() -> None:
    assert (
        of(node("MatMul", "x w", "y"), node("Gather", "w ids", "z"), node("Add", "y w", "a"))
        == set()
    )


def test_what_constants_alone_go_into_is() -> None:
    assert of(node("Transpose", "w", "t"), node("MatMul", "x t", "y")) == {"w"}
    assert of(node("Cast", "w", "t", to=10)) == {"w"}
    assert of(node("Add", "w v", "t"), v=np.zeros((2, 2), np.float32)) == {"w", "v"}


def test_another_shape_costs_nothing() -> None:
    assert of(node("Reshape", "w shape", "flat"), node("Add", "x flat", "y")) == set()


def test_behind_another_shape() -> None:
    assert of(node("Reshape", "w shape", "flat"), node("Neg", "flat", "y")) == {"w"}


def test_one_use_is_enough() -> None:
    assert of(
        node("MatMul", "x w", "y"), node("Transpose", "w", "t"), node("MatMul", "x t", "z")
    ) == {"w"}


def test_random_numbers_are_drawn_anew() -> None:
    assert of(node("RandomNormalLike", "w", "y")) == set()


def test_inside_branches() -> None:
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [node("Transpose", "w", "t")], "body", [], [info("t", TensorProto.FLOAT, [2, 2])]
    )
    plain = helper.make_graph(
        [node("MatMul", "x w", "m")], "body", [], [info("m", TensorProto.FLOAT, [2, 2])]
    )
    choice = helper.make_node("If", ["on"], ["y"], then_branch=body, else_branch=plain)
    assert of(choice) == {"w"}
    assert of(helper.make_node("If", ["on"], ["y"], then_branch=plain, else_branch=plain)) == set()
