"""Compiled calls: what is traced, and what stays as it is. The compiler itself takes a minute."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from onnx import GraphProto, TensorProto
from onnx_models import graph, model, node

from rankmesh import UsageError
from rankmesh.compiler.model_file.config import Config
from rankmesh.worker.executors.settings import asked_compilation
from rankmesh.worker.executors.torch import TorchExecutor
from rankmesh.worker.partition.plan import Segment

F32 = np.float32
pytestmark = pytest.mark.pure


def _scaled() -> Segment:
    """y = reshape(x * w) to the first two axes of x joined; the shape is computed in the graph."""
    nodes = [
        node("Mul", "x w", "scaled"),
        node("Shape", "x", "sizes"),
        node("Slice", "sizes two three", "last"),
        node("Concat", "minus last", "target", axis=0),
        node("Reshape", "scaled target", "y"),
    ]
    constants = {
        "w": np.array([2, 3], F32),
        "two": np.array([2]),
        "three": np.array([3]),
        "minus": np.array([-1]),
    }
    made = model(nodes, {"x": (F32, [None, None, 2])}, {"y": (F32, [None, 2])}, constants=constants)
    return Segment(made, ("x",), ("y",))


def _branch(op_type: str) -> GraphProto:
    return graph([node(op_type, "x", "z")], outputs={"z": (F32, [None])})


def _if() -> Segment:
    """y = |x| where the sum of x is true, else -x."""
    nodes = [
        node("ReduceSum", "x", "sum", keepdims=0),
        node("Cast", "sum", "true", to=TensorProto.BOOL),
        node("If", "true", "y", then_branch=_branch("Abs"), else_branch=_branch("Neg")),
    ]
    made = model(nodes, {"x": (F32, [None])}, {"y": (F32, [None])})
    return Segment(made, ("x",), ("y",))


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The graphs that were given to torch.compile, which run as they are."""
    found: list[Any] = []

    def compiled(graph: Any, **options: Any) -> Callable[..., Any]:
        assert options == {"fullgraph": True, "dynamic": False}
        found.append(graph)
        run: Callable[..., Any] = graph
        return run

    monkeypatch.setattr(torch, "compile", compiled)
    return found


def test_each_combination_of_shapes_is_compiled_once(graphs: list[Any]) -> None:
    prepared = TorchExecutor(compiles=True).prepare(_scaled(), "/")
    for sizes in ((2, 3, 2), (2, 3, 2), (1, 4, 2), (2, 3, 2)):
        x = np.arange(np.prod(sizes), dtype=F32).reshape(sizes)
        (got,) = prepared.run([x], [None])
        np.testing.assert_array_equal(got, (x * F32([2, 3])).reshape(-1, 2))
    assert len(graphs) == 2
    calls = [one.target for one in graphs[0].graph.nodes if one.op == "call_function"]
    assert calls == [torch.ops.aten.mul.Tensor, torch.ops.aten.view.default]


def test_results_share_no_memory_with_inputs(graphs: list[Any]) -> None:
    made = model([node("Identity", "x", "y")], {"x": (F32, [2])}, {"y": (F32, [2])})
    prepared = TorchExecutor(compiles=True).prepare(Segment(made, ("x",), ("y",)), "/")
    x = np.ones(2, F32)
    for _ in range(2):
        (got,) = prepared.run([x], [None])
        assert got is not x and not np.shares_memory(got, x)


def test_calls_that_read_numbers_run_as_they_are_and_that_is_said_once(
    graphs: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    prepared = TorchExecutor(compiles=True).prepare(_if(), "/")
    with caplog.at_level(logging.WARNING, logger="rankmesh"):
        for x in ([-1, 1], [-1, -1], [-1, 0, 1]):
            (got,) = prepared.run([np.array(x, F32)], [None])
            np.testing.assert_array_equal(got, np.abs(x) if sum(x) else -np.array(x))
    assert len(caplog.records) == 1 and not graphs
    assert "the part up to y is not compiled, and runs call by call: If If y" in caplog.text


def test_a_missing_compiler_is_said_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, graphs: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    class Failed(Exception):  # as torch wraps the errors of its compiler
        inner_exception = RuntimeError("No working C++ compiler found\nand a trace")

    def compiled(graph: Any, **options: Any) -> Callable[..., Any]:
        raise Failed

    monkeypatch.setattr(torch, "compile", compiled)
    prepared = TorchExecutor(compiles=True).prepare(_scaled(), "/")
    with caplog.at_level(logging.WARNING, logger="rankmesh"):
        (got,) = prepared.run([np.ones((1, 1, 2), F32)], [None])
    assert got.tolist() == [[2, 3]]
    assert [one.getMessage() for one in caplog.records] == [
        "the part up to y is not compiled, and runs call by call: No working C++ compiler found"
    ]


@pytest.mark.parametrize(
    ("variable", "key", "expected"),
    [("", "", False), ("1", "", True), ("", "true", True), ("0", "true", False), ("", "0", False)],
)
def test_the_option(
    variable: str, key: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANKMESH_TORCH_COMPILE", variable)
    assert asked_compilation(Config({"gpu_context": {"torch_compile": key}}), "gpu") is expected
    assert not asked_compilation(Config({"cpu_context": {"torch_compile": "1"}}), "gpu") or variable


def test_another_value_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKMESH_TORCH_COMPILE", "yes")
    with pytest.raises(UsageError, match="RANKMESH_TORCH_COMPILE is yes, expected one of 1, true"):
        asked_compilation()
