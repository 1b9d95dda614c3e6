"""Chains on real ranks: answers, errors that name the step, deadlines, cancellation, versions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from onnx import save
from onnx_models import model, node
from processes import PATIENCE
from served_models import grower

from rankmesh import (
    Orchestrator,
)

X = np.arange(8, dtype=np.float32).reshape(2, 4)

SERVE = """\
models:
  double: {model: double.onnx, replicas: 2}
  join: {model: join.onnx}
  softmax: {model: softmax.onnx}
  grower: {model: grower.onnx}
  text: {steps: [double, softmax]}
  inner:
    steps:
      - {model: double, outputs: {y: once}}
      - {model: double, inputs: {x: once}, outputs: {y: twice}}
  fork:
    steps:
      - {model: join, inputs: {a: left, b: right}, outputs: {both: BOTH}}
      - {model: double, inputs: {x: IN}, outputs: {y: left}}
      - {model: inner, inputs: {x: IN}, outputs: {twice: right}}
    inputs: [IN]
    outputs: [BOTH, right]
"""


def _made(folder: Path) -> Path:
    rows = {"x": ["n", 4]}
    made = {
        "double": model([node("Add", "x x", "y")], rows, {"y": ["n", 4]}),
        "softmax": model([node("Softmax", "y", "p", axis=-1)], {"y": ["n", 4]}, {"p": ["n", 4]}),
        "join": model(
            [node("Add", "a b", "both")], {"a": ["n", 4], "b": ["n", 4]}, {"both": ["n", 4]}
        ),
    }
    for name, one in made.items():
        save(one, str(folder / f"{name}.onnx"))
    grower(folder)
    (folder / "serve.yaml").write_text(SERVE)
    return folder / "serve.yaml"


@pytest.fixture(scope="module")
def orchestrator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orchestrator]:
    path = _made(tmp_path_factory.mktemp("chains"))
    with Orchestrator(config=str(path)) as made:
        yield made


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def test_a_chain_answers_in_each_way_to_ask(orchestrator: Orchestrator) -> None:
    expected = softmax(2 * X)
    assert [spec.name for spec in orchestrator.inputs("text")] == ["x"]
    with orchestrator.buffers("text", x=(2, 4)) as buffers:
        buffers["x"][:] = X
        in_place = orchestrator.predict(buffers, model="text")
    answers = [
        in_place,
        orchestrator.predict({"x": X}, model="text"),
        orchestrator.submit(X, model="text").result(PATIENCE),
        asyncio.run(orchestrator.predict_async(X, model="text")),
    ]
    for answer in answers:
        np.testing.assert_allclose(answer["p"], expected, rtol=1e-5)


def test_steps_fork_and_join_and_a_chain_may_be_a_step(orchestrator: Orchestrator) -> None:
    for _ in range(20):
        found = orchestrator.predict({"IN": X}, model="fork")
        np.testing.assert_array_equal(found["BOTH"], 6 * X)
        np.testing.assert_array_equal(found["right"], 4 * X)
        assert list(found) == ["BOTH", "right"]


def test_many_requests_at_once(orchestrator: Orchestrator) -> None:
    futures = [orchestrator.submit(X + at, model="fork") for at in range(100)]
    for at, future in enumerate(futures):
        np.testing.assert_array_equal(future.result(PATIENCE)["BOTH"], 6 * (X + at))
    metrics = orchestrator.metrics()["fork"]
    assert metrics["accepted"] == metrics["answered"] >= 100
    assert metrics["running"] == 0
