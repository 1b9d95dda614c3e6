"""Chains on real ranks: answers, errors that name the step, deadlines, cancellation, versions."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from onnx import save
from onnx_models import model, node
from processes import PATIENCE, wait_until
from served_models import grower

from rankmesh import (
    ChainSettings,
    DeadlineExceeded,
    InputError,
    ModelSettings,
    Orchestrator,
    StepSettings,
    UsageError,
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


def test_what_fails_in_a_step_names_it(orchestrator: Orchestrator) -> None:
    with pytest.raises(InputError, match=r"chain 'text'.*expected \[-1, 4\]"):
        orchestrator.predict(X[:, :3], model="text")
    with pytest.raises(DeadlineExceeded, match=r"chain 'text', step 1 \('double'\)"):
        orchestrator.predict(X, model="text", timeout=1e-9)
    with pytest.raises(UsageError, match="a chain has no ranks"):
        orchestrator.predict(X, model="text", results="all")


def test_a_request_whose_rank_is_killed_in_a_step_is_answered(orchestrator: Orchestrator) -> None:
    (rank,) = [one for one in orchestrator.status().ranks if one.model == "join"]
    assert rank.pid is not None
    os.kill(rank.pid, signal.SIGSTOP)
    future = orchestrator.submit(X, model="fork")
    wait_until(lambda: orchestrator.metrics()["join"]["running"] == 1, "the last step runs")
    os.kill(rank.pid, signal.SIGKILL)
    np.testing.assert_array_equal(future.result(PATIENCE)["BOTH"], 6 * X)
    assert orchestrator.metrics()["join"]["replayed"] == 1


def test_a_cancelled_request_cancels_its_step(orchestrator: Orchestrator) -> None:
    (rank,) = [one for one in orchestrator.status().ranks if one.model == "softmax"]
    assert rank.pid is not None
    before = orchestrator.metrics()["softmax"]["cancelled"]
    os.kill(rank.pid, signal.SIGSTOP)
    try:
        future = orchestrator.submit(X, model="text")
        wait_until(lambda: orchestrator.metrics()["softmax"]["running"] == 1, "the last step runs")
        assert future.cancel()
        wait_until(
            lambda: orchestrator.metrics()["softmax"]["cancelled"] == before + 1, "it is cancelled"
        )
    finally:
        os.kill(rank.pid, signal.SIGCONT)
    assert orchestrator.metrics()["text"]["running"] == 0


def test_chains_come_and_go_before_their_models(orchestrator: Orchestrator) -> None:
    again = StepSettings("softmax", {"y": "y"}, {"p": "q"})
    assert orchestrator.load(ChainSettings("late", ("double", again))) == 1
    np.testing.assert_allclose(
        orchestrator.predict(X, model="late")["q"], softmax(2 * X), rtol=1e-5
    )
    with pytest.raises(UsageError, match="model 'softmax' version 1 is a step of the chain"):
        orchestrator.unload("softmax")
    assert orchestrator.unload("late")
    with pytest.raises(UsageError, match="there is no model 'nothing'"):
        orchestrator.load(ChainSettings("late", ("double", "nothing")))


def test_a_version_that_does_not_fit_its_chains_is_refused(
    orchestrator: Orchestrator, tmp_path: Path
) -> None:
    nodes = [node("Concat", "x x", "y", axis=1)]
    save(model(nodes, {"x": ["n", 4]}, {"y": ["n", 8]}), str(tmp_path / "double.onnx"))
    wide = ModelSettings(str(tmp_path / "double.onnx"))
    processes = len(orchestrator.status().ranks)
    refused = (
        r"model 'double' version 1 cannot be replaced by version \d+: chain 'text', step 2 "
        r"\('softmax'\): its input 'y' is float32 of shape \[-1, 4\], and the tensor 'y' is "
        r"float32 of shape \[-1, 8\]"
    )
    with pytest.raises(UsageError, match=refused):
        orchestrator.load(wide)
    assert len(orchestrator.status().ranks) == processes
    version = orchestrator.load(wide, switch=False)
    with pytest.raises(UsageError, match=refused):
        orchestrator.switch("double", version)
    np.testing.assert_array_equal(orchestrator.predict(X, model="inner")["twice"], 4 * X)
    orchestrator.load(ChainSettings("one", ("double",)))
    with pytest.raises(UsageError, match=r"chain 'one': its tensor 'y' is .* of shape \[-1, 8\]"):
        orchestrator.replace([wide], followed_by=["text", "inner", "fork"])
    assert orchestrator.unload("one") and orchestrator.unload("double", version)
