"""Requests whose arrays stay bound to the session: the same memory again and again, with other
numbers in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from meetings import meetings
from onnx import save
from onnx_models import collective, model, node

from rankmesh.worker.runtime.opening import open_program
from rankmesh.worker.runtime.program import Program
from rankmesh.worker.runtime.program_spec import ProgramSpec

F32 = np.float32
ONE = np.arange(4, dtype=F32)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[tuple[Path, Any]]:
    with meetings() as ranks:
        yield tmp_path, ranks[0]


def opened(
    folder: tuple[Path, Any], nodes: Sequence[Any], outputs: Any = None, **more: Any
) -> Program:
    path = str(folder[0] / "m.onnx")
    save(model(nodes, {"x": [4]}, outputs or {"y": [4]}, **more), path)
    return open_program(ProgramSpec(path), folder[1])


def test_each_run_takes_what_is_there_and_writes_in_place(folder: tuple[Path, Any]) -> None:
    program = opened(folder, [node("Add", "x w", "y")], constants={"w": np.ones(4, F32)})
    x, y = ONE.copy(), np.empty(4, F32)
    run = program.bound({"x": x}, {"y": y})
    assert run is not None
    for factor in (1, 3, -2):
        np.multiply(ONE, factor, out=x)
        run()
        np.testing.assert_array_equal(y, factor * ONE + 1)


def test_two_bound_requests_and_a_third_that_is_not_do_not_touch_each_other(
    folder: tuple[Path, Any],
) -> None:
    program = opened(folder, [node("Neg", "x", "y")])
    xs, ys = [ONE, ONE + 1], [np.zeros(4, F32), np.zeros(4, F32)]
    runs = [program.bound({"x": x}, {"y": y}) for x, y in zip(xs, ys, strict=True)]
    for first, second in ((0, 1), (1, 0)):
        ys[0][:] = ys[1][:] = 7
        for index in (first, second):
            run = runs[index]
            assert run is not None
            run()
            np.testing.assert_array_equal(program.predict({"x": ONE + 9})["y"], -(ONE + 9))
            np.testing.assert_array_equal(ys[index], -xs[index])


def test_only_the_outputs_that_were_asked_for_are_written(folder: tuple[Path, Any]) -> None:
    program = opened(folder, [node("Neg", "x", "y"), node("Abs", "x", "z")], {"y": [4], "z": [4]})
    y = np.zeros(4, F32)
    run = program.bound({"x": ONE}, {"y": y})
    assert run is not None
    run()
    np.testing.assert_array_equal(y, -ONE)


def test_an_output_that_is_a_product_in_another_shape(folder: tuple[Path, Any]) -> None:
    """A Reshape of a Gemm is had without a copy: the matrix is what is bound."""
    weight = np.arange(8, dtype=F32).reshape(2, 4)
    program = opened(
        folder,
        [node("Reshape", "x two", "a"), node("Gemm", "a w", "b"), node("Reshape", "b shape", "y")],
        {"y": [1, 2, 4]},
        constants={"w": weight, "two": np.array([2, 2]), "shape": np.array([1, 2, 4])},
    )
    y = np.zeros((1, 2, 4), F32)
    run = program.bound({"x": ONE}, {"y": y})
    assert run is not None
    run()
    np.testing.assert_allclose(y, (ONE.reshape(2, 2) @ weight)[None], rtol=1e-6)


@pytest.mark.parametrize(("operator", "factor"), [("Neg", -1), ("Identity", 1)])
def test_a_small_input_that_is_handed_on_is_copied(
    folder: tuple[Path, Any], operator: str, factor: int
) -> None:
    outputs = {"y": [4], "x": [4]} if operator == "Neg" else {"y": [4]}
    program = opened(folder, [node(operator, "x", "y")], outputs)
    x, found = ONE.copy(), {name: np.zeros(4, F32) for name in outputs}
    run = program.bound({"x": x}, found)
    assert run is not None
    x += 1
    run()
    np.testing.assert_array_equal(found["y"], factor * x)
    np.testing.assert_array_equal(found.get("x", x), x)


def test_a_large_input_that_is_handed_on_is_not_copied(folder: tuple[Path, Any]) -> None:
    size = 1 << 15
    save(model([node("Identity", "x", "y")], {"x": [size]}, {"y": [size]}), str(folder[0] / "m"))
    program = open_program(ProgramSpec(str(folder[0] / "m")), folder[1])
    assert program.bound({"x": np.zeros(size, F32)}, {"y": np.zeros(size, F32)}) is None


def test_what_is_more_than_one_segment_is_not_bound(folder: tuple[Path, Any]) -> None:
    nodes = [node("Neg", "x", "a"), collective("AllReduce", "a", "y")]
    program = opened(folder, nodes, {"y": [4]}, known={"a": [4]})
    assert program.bound({"x": ONE}, {"y": np.zeros(4, F32)}) is None
