"""Every strategy of quantised operators gives what the whole node gives: integers exactly."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper
from slicing import check_strategies, graph_of, one_node

from rankmesh.compiler.slicing.placement.operator_node import NodeOperand, Strategy, operator_nodes
from rankmesh.compiler.slicing.placement.placements import SUM, WHOLE
from rankmesh.compiler.slicing.rules import RULES

DRAW = np.random.default_rng(11)
MS = "com.microsoft"


def normal(*shape: int) -> np.ndarray:
    return DRAW.standard_normal(shape).astype(np.float32)


def scales(*shape: int) -> np.ndarray:
    return DRAW.uniform(0.01, 0.05, shape).astype(np.float32)


def uint8(*shape: int) -> np.ndarray:
    return DRAW.integers(0, 255, shape).astype(np.uint8)


def int8(*shape: int) -> np.ndarray:
    """Weights of 7 bits: processors without VNNI saturate sums of two products of 8 bits."""
    return DRAW.integers(-63, 64, shape).astype(np.int8)


@pytest.mark.parametrize(
    ("axes", "domain"), [("one", ""), ("one", MS), ("axis", ""), ("axis", MS), ("blocks", "")]
)
@pytest.mark.parametrize("operator", ["QuantizeLinear", "DequantizeLinear"])
def test_linear_quantization(axes: str, operator: str, domain: str) -> None:
    shape = {"one": (), "axis": (8,), "blocks": (4, 2, 5)}[axes]
    attributes = {"axis": 1}
    if axes == "blocks":
        attributes["block_size"] = 4
    data = normal(4, 8, 5) if operator == "QuantizeLinear" else uint8(4, 8, 5)
    arrays = [data, scales(*shape), uint8(*shape)]
    check_strategies(*one_node(operator, arrays, (1, 2), domain=domain, **attributes), least=2)


def test_integers_without_zero_point_may_be_terms() -> None:
    data = DRAW.integers(-9, 9, (4, 8)).astype(np.int32)
    graph = graph_of(one_node("DequantizeLinear", [data, scales()], (1,))[0])
    (node,) = operator_nodes(graph, 2).values()
    found = list(RULES["DequantizeLinear"].strategies(node, NodeOperand(0), SUM))
    assert found == [Strategy((SUM, WHOLE), (SUM,))]


@pytest.mark.parametrize("columns", [False, True])
def test_integer_matmul(columns: bool) -> None:
    zero = int8(7) if columns else int8()
    model = one_node("MatMulInteger", [uint8(2, 5, 6), int8(6, 7), uint8(), zero], (1, 2, 3))
    check_strategies(*model, least=3)


@pytest.mark.parametrize("columns", [False, True])
def test_requantised_matmul(columns: bool) -> None:
    shape = (7,) if columns else ()
    arrays = [uint8(5, 6), scales(), uint8(), int8(6, 7), scales(*shape), np.zeros(shape, np.int8)]
    arrays += [scales(), uint8()]
    check_strategies(*one_node("QLinearMatMul", arrays, tuple(range(1, 8))), least=2)


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("rounded", [False, True])
def test_requantised_gemm(transposed: int, rounded: bool) -> None:
    b = int8(7, 6) if transposed else int8(6, 7)
    bias = DRAW.integers(-99, 99, 7).astype(np.int32)
    arrays = [uint8(5, 6), scales(), uint8(), b, scales(7), np.zeros(7, np.int8), bias]
    arrays += [scales(), uint8()] if rounded else []
    model = one_node("QGemm", arrays, tuple(range(1, 9)), domain=MS, transB=transposed)
    check_strategies(*model)


@pytest.mark.parametrize("columns", [False, True])
def test_dynamic_matmul(columns: bool) -> None:
    shape = (7,) if columns else ()
    arrays = [normal(2, 5, 6), int8(6, 7), scales(*shape), np.zeros(shape, np.int8), normal(7)]
    check_strategies(*one_node("DynamicQuantizeMatMul", arrays, (1, 2, 3, 4), domain=MS))


@pytest.mark.parametrize("bias", [False, True])
def test_scaled_matmul(bias: bool) -> None:
    arrays = [uint8(2, 5, 6), int8(6, 7), scales(), scales(7), uint8(), np.zeros(7, np.int8)]
    arrays += [normal(7)] if bias else []
    model = one_node("MatMulIntegerToFloat", arrays, tuple(range(1, 7)), domain=MS)
    check_strategies(*model, least=2)


@pytest.mark.parametrize("groups", [1, 4])
def test_integer_convolution(groups: int) -> None:
    arrays = [uint8(4, 8, 5, 5), uint8(12, 8 // groups, 3, 3), uint8()]
    model = one_node("ConvInteger", arrays, (1, 2), group=groups, pads=[1] * 4)
    check_strategies(*model, least=4 if groups == 1 else 3)


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("channels", [False, True])
def test_requantised_convolution(groups: int, channels: bool) -> None:
    shape = (12,) if channels else ()
    arrays = [uint8(4, 8, 5, 5), scales(), uint8(), int8(12, 8 // groups, 3, 3), scales(*shape)]
    arrays += [np.zeros(shape, np.int8), scales(), uint8()]
    arrays += [DRAW.integers(-99, 99, 12).astype(np.int32)]
    model = one_node("QLinearConv", arrays, tuple(range(1, 9)), group=groups, pads=[1] * 4)
    check_strategies(*model, least=3)


@pytest.mark.parametrize("operator", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("second", [(4, 5, 8), (8,), (5, 1)])
def test_requantised_arithmetic(operator: str, second: tuple[int, ...]) -> None:
    arrays = [uint8(4, 5, 8), scales(), uint8(), uint8(*second), scales(), uint8()]
    arrays += [scales(), uint8()]
    check_strategies(*one_node(operator, arrays, (1, 2, 4, 5, 6, 7), domain=MS), least=3)


@pytest.mark.parametrize("operator", ["QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax"])
def test_requantised_functions(operator: str) -> None:
    arrays = [uint8(4, 5, 8), scales(), uint8(), scales(), uint8()]
    model, feeds = one_node(operator, arrays, (1, 2, 3, 4), domain=MS)
    if operator == "QLinearSoftmax":
        model.graph.node[0].attribute.append(helper.make_attribute("opset", 13))
    check_strategies(model, feeds, least=2)


@pytest.mark.parametrize("operator", ["QLinearAveragePool", "QLinearGlobalAveragePool"])
def test_requantised_pool(operator: str) -> None:
    arrays = [uint8(4, 5, 6, 6), scales(), uint8(), scales(), uint8()]
    attributes = {"kernel_shape": [2, 2]} if operator == "QLinearAveragePool" else {}
    model = one_node(operator, arrays, (1, 2, 3, 4), domain=MS, **attributes)
    check_strategies(*model, least=2)


def test_requantised_choice_and_concat() -> None:
    parameters = [scales(), uint8()]
    condition = DRAW.integers(0, 2, (4, 5)).astype(bool)
    arrays = [condition, uint8(4, 5), *parameters, uint8(4, 5), *parameters, *parameters]
    weights = (2, 3, 5, 6, 7, 8)
    check_strategies(*one_node("QLinearWhere", arrays, weights, domain=MS), least=2)
    arrays = [*parameters, uint8(4, 5), *parameters, uint8(4, 6), *parameters]
    weights = (0, 1, 3, 4, 6, 7)
    check_strategies(*one_node("QLinearConcat", arrays, weights, domain=MS, axis=1))
