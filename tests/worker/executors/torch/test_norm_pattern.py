"""RMSNorm that a graph spells out: one node of torch, with the numbers of onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto
from onnx_models import model, node

pytest.importorskip("torch")

from rankmesh.worker.executors.torch import TorchExecutor
from rankmesh.worker.partition.plan import Segment

_RANDOM = np.random.default_rng(3)
_F32, _F16 = TensorProto.FLOAT, TensorProto.FLOAT16
_SHAPE = [2, 3, 6]
CONSTANTS = {
    "two": np.array(2, np.float32),
    "one": np.array(1, np.float32),
    "eps": np.array(1e-3, np.float32),
    "axes": np.array([-1], np.int64),
    "others": np.array([0, 1], np.int64),
    "w": _RANDOM.standard_normal(6).astype(np.float32),
    "w16": _RANDOM.standard_normal(6).astype(np.float16),
}
SQUARES = {"pow": node("Pow", "v two", "s"), "product": node("Mul", "v v", "s")}
ROOT = [
    node("ReduceMean", "s axes", "m", keepdims=1),
    node("Add", "m eps", "a"),
    node("Sqrt", "a", "r"),
]
QUOTIENTS = {
    "quotient": [node("Div", "v r", "n")],
    "reciprocal": [node("Reciprocal", "r", "i"), node("Mul", "v i", "n")],
    "one over": [node("Div", "one r", "i"), node("Mul", "i v", "n")],
}


def run(nodes: list[Any], kind: type = np.float32, outputs: str = "y") -> list[str]:
    """The operators that torch runs; their results are those of onnxruntime."""
    x = (_RANDOM.standard_normal(_SHAPE) * 3).astype(kind)
    used = {name for one in nodes for name in one.input}
    names = tuple(outputs.split())
    made = model(
        nodes,
        {"x": (kind, _SHAPE)},
        {name: (kind, None) for name in names},
        constants={name: array for name, array in CONSTANTS.items() if name in used},
    )
    prepared = TorchExecutor().prepare(Segment(made, ("x",), names), "/")
    results = prepared.run([x], [None] * len(names))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(made.SerializeToString(), options)
    close = 1e-5 if kind is np.float32 else 2e-3
    for got, wanted in zip(results, session.run(None, {"x": x}), strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_allclose(got, wanted, close, close)
    (calls,) = prepared.lists.values()
    return [call.label.split()[0].removeprefix("rankmesh.torch::") for call in calls.calls]


@pytest.mark.parametrize("square", SQUARES)
@pytest.mark.parametrize("quotient", QUOTIENTS)
def test_a_spelled_out_norm_is_one_call(square: str, quotient: str) -> None:
    nodes = [node("Abs", "x", "v"), SQUARES[square], *ROOT, *QUOTIENTS[quotient]]
    assert run([*nodes, node("Mul", "w n", "y")]) == ["Abs", "RootMeanSquareNorm"]


@pytest.mark.parametrize("scaled", [True, False])
def test_casts_around_it_belong_to_it(scaled: bool) -> None:
    nodes = [node("Cast", "x", "v", to=_F32), SQUARES["pow"], *ROOT, *QUOTIENTS["quotient"]]
    nodes.append(node("Cast", "n", "c" if scaled else "y", to=_F16))
    last = [node("Mul", "c w16", "y")] if scaled else []
    assert run([*nodes, *last], np.float16) == ["RootMeanSquareNorm"]


def test_the_norm_of_a_llama_in_float16_as_torch_exports_it() -> None:
    """Of LlamaForCausalLM of transformers: the scale is the first factor."""
    nodes = [node("Cast", "x", "v", to=_F32), SQUARES["pow"], *ROOT, *QUOTIENTS["reciprocal"]]
    nodes += [node("Cast", "n", "c", to=_F16), node("Mul", "w16 c", "m16")]
    assert run([*nodes, node("Abs", "m16", "y")], np.float16) == ["RootMeanSquareNorm", "Abs"]


def test_other_axes_and_scales_are_computed_in_steps() -> None:
    mean = node("ReduceMean", "s others", "m", keepdims=1)
    nodes = [node("Abs", "x", "v"), SQUARES["pow"], mean, *ROOT[1:], *QUOTIENTS["quotient"]]
    assert run([*nodes, node("Mul", "n x", "y")]) == ["Abs", "RootMeanSquareNorm"]


@pytest.mark.parametrize("outputs", ["y m", "y n"])
def test_values_that_something_else_takes_stay(outputs: str) -> None:
    nodes = [node("Abs", "x", "v"), SQUARES["pow"], *ROOT, *QUOTIENTS["reciprocal"]]
    made = run([*nodes, node("Mul", "n w", "y")], outputs=outputs)
    assert ("RootMeanSquareNorm" in made) == (outputs == "y n")
    assert "Mul" in made
