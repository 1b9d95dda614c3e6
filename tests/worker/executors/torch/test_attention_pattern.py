"""Attention that a graph spells out: torch computes it by one kernel where that gives the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from onnx_models import model, node

pytest.importorskip("torch")

from rankmesh.worker.executors.torch import TorchExecutor
from rankmesh.worker.partition.plan import Segment

pytestmark = pytest.mark.pure
F32 = np.float32
_RANDOM = np.random.default_rng(1)
CAUSAL = np.tril(np.ones((1, 1, 5, 5), np.bool_))
LOWEST = np.array(np.finfo(F32).min)
SCALE = np.array(3.0, F32)
KEPT = np.where(np.arange(5) < 4, 0, -np.inf).astype(F32).reshape(1, 1, 1, 5)


def softmax(x: np.ndarray) -> np.ndarray:
    raised = np.exp(x - x.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


CASES: list[tuple[str, list[Any], Any]] = [
    ("bare", [], lambda s: s),
    ("scaled", [node("Mul", "f s", "t")], lambda s: s * 3),
    ("divided, with a bias", [node("Div", "s f", "d"), node("Add", "bias d", "t")],
     lambda s: s / 3 + KEPT),
    ("causal", [node("Where", "c s low", "t")], lambda s: np.where(CAUSAL, s, LOWEST)),
    ("causal, with a bias",
     [node("Div", "s f", "d"), node("Where", "c d low", "w"), node("Add", "w bias", "t")],
     lambda s: np.where(CAUSAL, s / 3, LOWEST) + KEPT),
]  # fmt: skip


def run(between: list[Any], shapes: list[tuple[int, ...]], outputs: str = "y") -> Any:
    """The results, the inputs, and the operators that are left."""
    last = between[-1].output[0] if between else "s"
    nodes = [node("MatMul", "q k", "s"), *between, node("Softmax", last, "p", axis=-1)]
    nodes.append(node("MatMul", "p v", "y"))
    arrays = [_RANDOM.standard_normal(one).astype(F32) for one in shapes]
    given = dict(zip("qkv", arrays, strict=True))
    constants = {"c": CAUSAL, "low": LOWEST, "f": SCALE, "bias": KEPT}
    names = tuple(outputs.split())
    made = model(
        nodes,
        {name: list(array.shape) for name, array in given.items()},
        {name: None for name in names},
        constants=constants,
    )
    prepared = TorchExecutor().prepare(Segment(made, tuple(given), names), "/")
    for _ in range(2):
        results = prepared.run(list(given.values()), [None] * len(names))
    (calls,) = prepared.lists.values()
    return results, given, [call.label.split()[0] for call in calls.calls]


FOUR = [(2, 3, 5, 4), (2, 3, 4, 5), (2, 3, 5, 4)]
THREE = [(2, 5, 4), (2, 4, 5), (2, 5, 4)]


@pytest.mark.parametrize("to", [TensorProto.FLOAT, TensorProto.FLOAT16])
def test_casts_behind_the_softmax_are_part_of_it(to: int) -> None:
    """Exporters write them where the softmax is in float32; another type is computed by steps."""
    half = to == TensorProto.FLOAT16
    nodes = [
        node("MatMul", "q k", "s"),
        node("Softmax", "s", "p", axis=-1),
        node("Cast", "p", "a", to=to),
        node("Cast", "a", "b", to=to),
        node("MatMul", "b v", "y"),
    ]
    dtypes = (F32, F32, np.float16 if half else F32)
    arrays = [
        _RANDOM.standard_normal(one).astype(dtype) for one, dtype in zip(FOUR, dtypes, strict=True)
    ]
    given = dict(zip("qkv", arrays, strict=True))
    made = model(
        nodes,
        {name: (array.dtype, list(array.shape)) for name, array in given.items()},
        {"y": (dtypes[2], list(FOUR[0]))},
    )
    prepared = TorchExecutor().prepare(Segment(made, tuple(given), ("y",)), "/")
    (got,) = prepared.run(arrays, [None])
    q, k, v = (one.astype(F32) for one in arrays)
    np.testing.assert_allclose(got, softmax(q @ k) @ v, 1e-2 if half else 1e-5, 1e-2 * half + 1e-6)
    (calls,) = prepared.lists.values()
    assert len(calls.calls) == 1


@pytest.mark.parametrize("rank", [4, 3])
@pytest.mark.parametrize("number", [0.0, 1.0])
def test_rows_that_are_hidden_whole_get_the_number_of_the_graph(rank: int, number: float) -> None:
    """As torch's exporters write its attention; other numbers than 0 are computed step by step."""
    nodes = [
        node("MatMul", "q k", "s"),
        node("Add", "s bias", "t"),
        node("Softmax", "t", "p", axis=-1),
        node("IsNaN", "p", "empty"),
        node("Where", "empty number p", "kept"),
        node("MatMul", "kept v", "y"),
    ]
    shapes = [one[4 - rank :] for one in FOUR]
    arrays = [_RANDOM.standard_normal(one).astype(F32) for one in shapes]
    hidden = np.zeros((5, 5), F32)
    hidden[2] = -np.inf
    given = dict(zip("qkv", arrays, strict=True))
    made = model(
        nodes,
        {name: list(array.shape) for name, array in given.items()},
        {"y": None},
        constants={"bias": hidden, "number": np.array(number, F32)},
    )
    prepared = TorchExecutor().prepare(Segment(made, tuple(given), ("y",)), "/")
    (got,) = prepared.run(arrays, [None])
    q, k, v = arrays
    with np.errstate(invalid="ignore"):
        shares = softmax(q @ k + hidden)
    shares = np.where(np.isnan(shares), F32(number), shares)
    np.testing.assert_allclose(got, shares @ v, rtol=1e-5, atol=1e-6)
    (calls,) = prepared.lists.values()
    assert len(calls.calls) == 1


@pytest.mark.parametrize("shapes", [FOUR, THREE], ids=["heads", "without heads"])
@pytest.mark.parametrize(
    ("between", "wanted"), [one[1:] for one in CASES], ids=[o[0] for o in CASES]
)
def test_one_call_gives_what_the_nodes_give(between: Any, wanted: Any, shapes: Any) -> None:
    if shapes is THREE and any(one.op_type != "Mul" for one in between):
        shapes = [(1, *one) for one in THREE]
    (y,), given, operators = run(between, shapes)
    weights = softmax(wanted(given["q"] @ given["k"]))
    np.testing.assert_allclose(y, weights @ given["v"], rtol=1e-5, atol=1e-6)
    assert operators == ["rankmesh.torch::AttendedValues"]


def test_weights_that_something_else_takes_stay() -> None:
    (y, p), given, operators = run([], FOUR, "y p")
    np.testing.assert_allclose(p, softmax(given["q"] @ given["k"]), rtol=1e-5)
    np.testing.assert_allclose(y, p @ given["v"], rtol=1e-5, atol=1e-6)
    assert operators == ["MatMul", "Softmax", "MatMul"]
