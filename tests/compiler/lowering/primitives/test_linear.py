"""Products and biases: right, and with every weight as it is stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from primitives import Parameter, Writer, check, lowered, run, same

from rankmesh.compiler.lowering.lower_mindir import lower_mindir
from rankmesh.compiler.mindir.reader import read_model

RNG = np.random.default_rng(2)


def normal(*shape: int, dtype: str = "float32") -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


def kinds(proto: Any) -> list[str]:
    return [node.op_type for node in proto.graph.node if node.op_type != "Identity"]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32"])
@pytest.mark.parametrize(
    ("left", "right"), [(False, False), (False, True), (True, False), (True, True)]
)
def test_transposed_products(
    tmp_path: Path, left: bool, right: bool, dtype: str, dynamic: bool
) -> None:
    x, w = (normal(5, 3) * 3).astype(dtype), (normal(5, 4) * 3).astype(dtype)
    x, w = x if left else x.T.copy(), w.T.copy() if right else w
    expected = (x.T if left else x) @ (w.T if right else w)
    check(tmp_path, "MatMul", [x, Parameter(w), left, right], expected, dynamic)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 5, 3), (2, 1, 4, 3), (2, 0, 3), (0, 2, 3)])
@pytest.mark.parametrize("bias", [False, True])
def test_dense_of_any_rank(
    tmp_path: Path, shape: tuple[int, ...], bias: bool, dynamic: bool
) -> None:
    x, w, c = normal(*shape), normal(4, 3), normal(4)
    expected = x @ w.T + c if bias else x @ w.T
    check(tmp_path, "Dense", [x, Parameter(w), Parameter(c) if bias else None], expected, dynamic)


def test_dense_of_an_empty_batch(tmp_path: Path) -> None:
    x, w = normal(0, 5, 3), normal(4, 3)
    check(tmp_path, "Dense", [x, Parameter(w), None], x @ w.T, dynamic=True)


def test_no_weight_is_transposed_or_copied(tmp_path: Path) -> None:
    x, w, c = normal(2, 5, 3), normal(4, 3), normal(4)
    proto, _ = lowered(tmp_path, "Dense", [x, Parameter(w), Parameter(c)], x @ w.T + c)
    assert kinds(proto) == ["Reshape", "Gemm", "Reshape"]
    stored = [record for record in proto.graph.initializer if record.external_data]
    assert [list(record.dims) for record in stored] == [[4, 3], [4]]
    assert not any(record.raw_data for record in stored)


def test_transpose_of_a_weight_goes_into_the_product(tmp_path: Path) -> None:
    x, w = normal(2, 5, 3), normal(4, 3)
    writer = Writer()
    weight = writer.argument(Parameter(w))
    output = writer.node("MatMulExt", [x, writer.node("Transpose", [weight, (1, 0)], w.T)], x @ w.T)
    proto = lower_mindir(read_model(str(writer.save(tmp_path / "one.mindir", output, x @ w.T))))
    assert "Transpose" not in kinds(proto)
    same(run(tmp_path, proto, writer.arrays)[0], x @ w.T)


def test_bias_behind_a_product_is_folded(tmp_path: Path) -> None:
    x, w, c = normal(2, 3), normal(4, 3), normal(4)
    writer = Writer()
    product = writer.node("MatMul", [x, Parameter(w), False, True], x @ w.T)
    output = writer.node("BiasAdd", [product, Parameter(c), 0], x @ w.T + c)
    proto = lower_mindir(read_model(str(writer.save(tmp_path / "one.mindir", output, x @ w.T + c))))
    assert kinds(proto) == ["Gemm"]
    same(run(tmp_path, proto, writer.arrays)[0], x @ w.T + c)


@pytest.mark.parametrize("through", ["MakeTuple", "Depend"])
def test_product_that_others_use_keeps_its_own_value(tmp_path: Path, through: str) -> None:
    x, w, c = normal(2, 3), normal(4, 3), normal(4)
    bare = x @ w.T
    writer = Writer()
    product = writer.node("MatMul", [x, Parameter(w), False, True], bare)
    other = product if through == "MakeTuple" else writer.node("Depend", [product, x], bare)
    summed = writer.node("BiasAdd", [product, Parameter(c), 0], bare + c)
    output = writer.node("MakeTuple", [summed, writer.node("ReLU", [other], bare), product], None)
    results = (bare + c, bare.clip(0), bare)
    proto = lower_mindir(read_model(str(writer.save(tmp_path / "one.mindir", output, results))))
    for got, expected in zip(run(tmp_path, proto, writer.arrays), results, strict=True):
        same(got, expected)


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 5), (2, 3, 5, 4)])
def test_bias_of_channels(tmp_path: Path, shape: tuple[int, ...]) -> None:
    x, c = normal(*shape), normal(3)
    check(tmp_path, "BiasAdd", [x, c, 0], x + c.reshape(3, *(1,) * (len(shape) - 2)), dynamic=True)
    if len(shape) == 4:
        last = normal(4)
        check(tmp_path, "BiasAdd", [x, last, 1], x + last)


def test_batches(tmp_path: Path) -> None:
    x, y, w = normal(2, 1, 3, 4), normal(5, 6, 4), normal(6, 4)
    check(tmp_path, "BatchMatMul", [x, y, False, True], x @ y.swapaxes(1, 2), dynamic=True)
    check(tmp_path, "BatchMatMul", [x, Parameter(w), False, True], x @ w.T, dynamic=True)
    check(tmp_path, "MatMulExt", [x, y.swapaxes(1, 2).copy()], x @ y.swapaxes(1, 2), dynamic=True)


def test_rms_norm_from_its_parts_is_one_division(tmp_path: Path) -> None:
    x = normal(2, 8)
    root = np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(1e-6))
    writer = Writer()
    square = writer.node("Square", [x], x)
    mean = writer.node("ReduceMean", [square, (-1,), True], root)
    inverse = writer.node("Rsqrt", [writer.node("Add", [mean, 1e-6], root)], root)
    output = writer.node("Mul", ["g:x0", inverse], x)
    proto = lower_mindir(read_model(str(writer.save(tmp_path / "one.mindir", output, x))))
    assert kinds(proto) == ["Pow", "ReduceMean", "Add", "Sqrt", "Div"]
    same(run(tmp_path, proto, writer.arrays)[0], x / root)


@pytest.mark.parametrize("shape", [(2, 3), (2, 5, 3)])
def test_rank_that_is_unknown(tmp_path: Path, shape: tuple[int, ...]) -> None:
    x, w, c = normal(*shape), normal(4, 3), normal(4)
    expected = np.tanh(x @ w.T + c)
    writer = Writer()
    product = writer.node("Dense", [x, Parameter(w), Parameter(c)], expected)
    output = writer.node("Tanh", [product], expected)
    recorded = [
        tensor
        for node in writer.graph.node
        for attribute in node.attribute
        for tensor in attribute.tensors
    ]
    for tensor in [writer.graph.input[0].tensor[0], *recorded]:
        tensor.dims[:] = [-2]
    proto = lower_mindir(read_model(str(writer.save(tmp_path / "one.mindir", output, expected))))
    same(run(tmp_path, proto, writer.arrays)[0], expected)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("bqhd,bkhd->bhqk", [(2, 3, 4, 5), (2, 6, 4, 5)]),
        ("...ij,...jk->...ik", [(2, 3, 4), (2, 4, 5)]),
        ("ij->ji", [(2, 3)]),
        ("ii->i", [(3, 3)]),
        ("i,j", [(2,), (3,)]),
        ("bi,ij,bj->b", [(2, 3), (3, 4), (2, 4)]),
    ],
)
def test_einsum(
    tmp_path: Path, equation: str, shapes: list[tuple[int, ...]], dynamic: bool
) -> None:
    items = [normal(*shape) for shape in shapes]
    check(tmp_path, "Einsum", [items], np.einsum(equation, *items), dynamic, equation=equation)
