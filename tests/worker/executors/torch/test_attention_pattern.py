"""Attention that a graph spells out: torch computes it by one kernel where that gives the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
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
