"""Python functions as models: their answers, their errors, and their processes."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import save
from onnx_models import model, node
from processes import PATIENCE, wait_until

from rankmesh import (
    DeadlineExceeded,
    InputError,
    ModelError,
    Orchestrator,
    PythonSettings,
    TensorSettings,
    UsageError,
)

TENSORS = (TensorSettings("x", "float32", (1,)),)
X = np.arange(8, dtype=np.float32).reshape(2, 4)

STEPS = """\
import os
import time

import numpy as np
from beside import FACTOR

from rankmesh import InputError


def scale(x):
    if x.flags.writeable:
        raise RuntimeError("the input may be written")
    if x[0, 0] < 0:
        raise InputError("the first value is negative")
    if x[0, 0] == 100:
        raise KeyError("missing\\nsecond line")
    if x[0, 0] == 101:
        return {"y": x.astype(np.float64)}
    if x[0, 0] == 102:
        return x, x
    if x[0, 0] == 103:
        raise SystemExit(3)
    return FACTOR * x


class Largest:
    def __init__(self):
        self.kept = []

    def __call__(self, p):
        self.kept.append(p)
        return p.argmax(-1), p


def label(text, number):
    if b"bad" in text.tolist():
        raise InputError("a text is bad")
    big = np.array([one.upper() for one in text], object)
    return {"big": big, "together": np.full(len(text), len(text))}


def slow(x):
    time.sleep(float(x[0]))
    return np.array([os.getpid()])
"""

SERVE = """\
models:
  scale:
    python: steps.py:scale
    inputs: [{name: x, dtype: float32, dims: [-1, 4]}]
    outputs: [{name: y, dtype: float32, dims: [-1, 4]}]
  softmax: {model: softmax.onnx}
  largest:
    python: steps.py:Largest
    inputs: [{name: p, dtype: float32, dims: [-1, 4]}]
    outputs: [{name: at, dtype: int64, dims: [-1]}, {name: same, dtype: float32, dims: [-1, 4]}]
  slow:
    python: steps.py:slow
    inputs: [{name: x, dtype: float32, dims: [1]}]
    outputs: [{name: pid, dtype: int64, dims: [1]}]
  label:
    python: steps.py:label
    inputs: [{name: text, dtype: bytes, dims: [-1]}, {name: number, dtype: float32, dims: []}]
    outputs: [{name: big, dtype: bytes, dims: [-1]}, {name: together, dtype: int64, dims: [-1]}]
    batching: {max_batch: 6, max_delay: 20}
  labelled: {steps: [label]}
  best: {steps: [scale, softmax, largest]}
"""


@pytest.fixture(scope="module")
def orchestrator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orchestrator]:
    folder = tmp_path_factory.mktemp("steps")
    (folder / "steps.py").write_text(STEPS)
    (folder / "beside.py").write_text("FACTOR = 2\n")
    rows = {"y": ["n", 4]}
    save(
        model([node("Softmax", "y", "p", axis=-1)], rows, {"p": ["n", 4]}), folder / "softmax.onnx"
    )
    (folder / "serve.yaml").write_text(SERVE)
    with Orchestrator(config=str(folder / "serve.yaml")) as made:
        yield made


def test_functions_are_models_and_steps(orchestrator: Orchestrator) -> None:
    np.testing.assert_array_equal(orchestrator.predict(X, model="scale")["y"], 2 * X)
    for _ in range(3):  # the object has kept its inputs, whose memory is used again
        found = orchestrator.predict(X, model="best")
        np.testing.assert_array_equal(found["at"], [3, 3])
        powers = np.exp(2 * X - 2 * X.max(-1, keepdims=True))
        np.testing.assert_allclose(found["same"], powers / powers.sum(-1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize(
    ("first", "error", "text"),
    [
        (-1, InputError, r"steps\.py:scale: the first value is negative$"),
        (100, ModelError, r"steps\.py:scale failed: KeyError: .*missing"),
        (101, ModelError, r"returned 'y' as float64 of shape \[2, 4\], expected 'y' \(float32 of"),
        (102, ModelError, r"returned 2 values, expected"),
        (103, ModelError, r"failed: SystemExit: 3"),
    ],
)
def test_what_fails_in_a_function_names_the_step(
    orchestrator: Orchestrator, first: float, error: type[Exception], text: str
) -> None:
    given = X.copy()
    given[0, 0] = first
    with pytest.raises(error, match=rf"chain 'best', step 1 \('scale'\): .*{text}"):
        orchestrator.predict(given, model="best")
    np.testing.assert_array_equal(orchestrator.predict(X, model="scale")["y"], 2 * X)


def test_the_traceback_of_a_function_is_in_the_log(
    orchestrator: Orchestrator, caplog: pytest.LogCaptureFixture
) -> None:
    given = X.copy()
    given[0, 0] = 100
    with caplog.at_level(logging.DEBUG, "rankmesh"), pytest.raises(ModelError):
        orchestrator.predict(given, model="scale")
    wait_until(lambda: "in scale" in caplog.text, "the log has the traceback")


def test_a_function_has_deadlines_and_a_process_that_is_replaced(
    orchestrator: Orchestrator,
) -> None:
    (first,) = orchestrator.predict(np.zeros(1, np.float32), model="slow")["pid"]
    with pytest.raises(DeadlineExceeded):
        orchestrator.predict(np.full(1, 0.5, np.float32), model="slow", timeout=0.05)
    wait_until(lambda: not orchestrator.metrics()["slow"]["running"], "the late one has ended")
    os.kill(int(first), signal.SIGSTOP)
    future = orchestrator.submit(np.zeros(1, np.float32), model="slow")
    wait_until(lambda: orchestrator.metrics()["slow"]["running"] == 1, "the function runs")
    os.kill(int(first), signal.SIGKILL)
    (second,) = future.result(PATIENCE)["pid"]
    assert second != first
    assert orchestrator.metrics()["slow"]["replayed"] == 1


def labels(orchestrator: Orchestrator, *texts: list[str]) -> list[Future[Any]]:
    """Requests of six rows in all, which run at once: one to the chain, the others to the model."""
    models = ("labelled", *("label" for _ in texts[1:]))
    return [
        orchestrator.submit({"text": one, "number": np.float32(1)}, model=model)
        for one, model in zip(texts, models, strict=True)
    ]


def test_requests_with_strings_are_batched(orchestrator: Orchestrator) -> None:
    texts = (["a"], ["b", "cc"], ["d", "", "e" * 99])
    for future, given in zip(labels(orchestrator, *texts), texts, strict=True):
        found = future.result(PATIENCE)
        assert found["big"].tolist() == [one.upper().encode() for one in given]
        assert found["together"].tolist() == [6] * len(given)


def test_a_bad_request_fails_alone(orchestrator: Orchestrator) -> None:
    first, bad, last = labels(orchestrator, ["a"], ["b", "bad"], ["c", "d", "e"])
    assert first.result(PATIENCE)["together"].tolist() == [1]
    assert last.result(PATIENCE)["big"].tolist() == [b"C", b"D", b"E"]
    with pytest.raises(InputError, match="a text is bad"):
        bad.result(PATIENCE)


def test_a_function_has_no_weights_and_its_source_must_be_there(
    orchestrator: Orchestrator, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="is a Python function: it has no weights"):
        orchestrator.update_weights({"w": X}, model="scale")
    (tmp_path / "bad.py").write_text("import nothing_of_that_name\n")
    for path, text in [
        (f"{tmp_path}/gone.py:f", r"gone\.py: no such file, for the function 'f'"),
        (f"{tmp_path}/bad.py:f", r"bad\.py:f cannot be loaded: ModuleNotFoundError"),
        ("math:nothing", "math:nothing: no such name in math"),
        ("math:pi", "math:pi: float is no function in math"),
    ]:
        with pytest.raises(ModelError, match=text):
            orchestrator.load(PythonSettings(path, inputs=TENSORS, outputs=TENSORS))
    assert not {"f", "nothing", "pi"} & set(orchestrator.models())
