"""The torch executor's numbers: uint64, powers, ranges, sizes, and indices out of range."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from onnx_models import collective, graph, loaded, model, node

pytest.importorskip("torch")

from rankmesh.comm.errors import ModelError, RankFailed
from rankmesh.worker.executors.torch import TorchExecutor
from rankmesh.worker.partition.cut import make_plan
from rankmesh.worker.partition.plan import Segment
from rankmesh.worker.runtime.steps import StepPreparation

pytestmark = pytest.mark.pure
F32, F64, I64, U64 = np.float32, np.float64, np.int64, np.uint64
LARGE = np.array([2**63 + 9, 2**64 - 1, 7, 2**63, 10], U64)
OTHER = np.array([4, 2**63 + 1, 2**63 + 1, 2**63, 3], U64)


def computed(
    nodes: list[Any], given: dict[str, np.ndarray], constants: dict[str, np.ndarray], **types: Any
) -> np.ndarray:
    """The output y, by the calls that are left for these shapes."""
    inputs = {name: (array.dtype, array.shape) for name, array in given.items()}
    dtype = types.get("dtype", next(iter(given.values())).dtype)
    made = model(nodes, inputs, {"y": (dtype, None)}, constants=constants)
    prepared = TorchExecutor().prepare(Segment(made, tuple(given), ("y",)), "/")
    prepared.run(list(given.values()), [None])
    return prepared.run(list(given.values()), [None])[0]


@pytest.mark.parametrize(
    ("op_type", "wanted"),
    [("Add", LARGE + OTHER), ("Sub", LARGE - OTHER), ("Mul", LARGE * OTHER),
     ("Div", LARGE // OTHER), ("Mod", LARGE % OTHER),
     ("Min", np.minimum(LARGE, OTHER)), ("Max", np.maximum(LARGE, OTHER))],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_large_numbers_of_uint64_are_exact(op_type: str, wanted: np.ndarray) -> None:
    assert (
        computed([node(op_type, "a b", "y")], {"a": LARGE, "b": OTHER}, {}).tolist()
        == wanted.tolist()
    )


def test_functions_of_uint64_have_no_sign() -> None:
    assert computed([node("Abs", "x", "y")], {"x": LARGE}, {}).tolist() == LARGE.tolist()
    assert computed([node("Sign", "x", "y")], {"x": LARGE}, {}).tolist() == [1] * 5
    bounds = {"low": np.array(8, U64), "high": np.array(2**63 + 1, U64)}
    for given in ({"x": LARGE}, {"x": LARGE, **bounds}):
        constants = {} if len(given) > 1 else bounds
        result = computed([node("Clip", "x low high", "y")], given, constants)
        assert result.tolist() == np.clip(LARGE, U64(8), U64(2**63 + 1)).tolist()


def test_powers_of_integers_are_exact() -> None:
    x = np.array([3, 123456789], I64)
    wanted = [9, 123456789**2]
    assert computed([node("Pow", "x p", "y")], {"x": x}, {"p": F32(2)}).tolist() == wanted
    more = {"x": x, "p": np.array([30, 1], F32)}
    assert computed([node("Pow", "x p", "y")], more, {}).tolist() == [3**30, 123456789]
    assert computed([node("Pow", "x p", "y")], {"x": x}, {"p": I64(-1)}).tolist() == [0, 0]


def test_a_range_of_float64_is_one_of_float64() -> None:
    given = {"a": np.array(0.1)}
    result = computed(
        [node("Range", "a b c", "y")], given, {"b": np.array(1.0), "c": np.array(0.3)}
    )
    np.testing.assert_allclose(result, [0.1, 0.4, 0.7], rtol=1e-15)
    with pytest.raises(RankFailed, match="the step is 0"):
        computed([node("Range", "a b c", "y")], given, {"b": np.array(1.0), "c": np.array(0.0)})


def test_padding_of_integers_is_exact() -> None:
    pads = {"p": np.array([0, 1]), "v": np.array(2**60 + 1)}
    assert computed([node("Pad", "x p v", "y")], {"x": np.array([1])}, pads).tolist() == [
        1,
        2**60 + 1,
    ]


@pytest.mark.parametrize("reduction", ["none", "add"])
@pytest.mark.parametrize("index", [[0, 5], [2, 0], [0, -4]], ids=str)
def test_a_scatter_out_of_range_fails(reduction: str, index: list[int]) -> None:
    given = {"x": np.zeros((2, 3), F32), "i": np.array([index])}
    with pytest.raises(RankFailed, match="ScatterND"):
        computed(
            [node("ScatterND", "x i u", "y", reduction=reduction)], given, {"u": np.ones(1, F32)}
        )


@pytest.mark.parametrize("reduction", ["none", "add"])
def test_a_scatter_counts_from_the_end_too(reduction: str) -> None:
    given = {"x": np.zeros((2, 3), F32), "i": np.array([[-1, -3], [0, 2]])}
    nodes = [node("ScatterND", "x i u", "y", reduction=reduction)]
    result = computed(nodes, given, {"u": np.array([1, 2], F32)})
    assert result.tolist() == [[0, 0, 2], [1, 0, 0]]


def test_a_resized_axis_is_as_long_as_float32_says() -> None:
    nodes = [node("Resize", "x e s", "y", coordinate_transformation_mode="asymmetric",
                  nearest_mode="floor")]  # fmt: skip
    constants = {"e": np.zeros(0, F32), "s": np.array([0.7], F32)}
    result = computed(nodes, {"x": np.arange(10, dtype=F32)}, constants)
    assert result.tolist() == [0, 1, 2, 4, 5, 7, 8]


def test_the_variance_of_equal_numbers_is_none() -> None:
    x = np.full((1, 1, 2, 2), 1234.567, F32)
    nodes = [node("MeanVarianceNormalization", "x", "y")]
    assert not computed(nodes, {"x": x}, {}).any()


def test_random_numbers_of_a_loop_differ_from_run_to_run() -> None:
    body = graph(
        [node("RandomUniform", "", "r", shape=[1]), node("Identity", "c", "d")],
        inputs={"i": (I64, []), "c": (np.bool_, [])},
        outputs={"d": (np.bool_, []), "r": [1]},
    )
    made = model(
        [node("Loop", "n t", "r", body=body), node("Add", "x r", "y")],
        {"x": [1]},
        {"y": [2, 1]},
        constants={"n": np.array(2), "t": np.array(True)},
    )
    prepared = TorchExecutor().prepare(Segment(made, ("x",), ("y",)), "/")
    results = [prepared.run([np.ones(1, F32)], [None])[0].tolist() for _ in range(3)]
    assert results[0] != results[1] != results[2]


def test_a_constant_branch_that_fails_does_so_only_where_it_runs() -> None:
    yes = graph([node("Reshape", "w two", "a")], outputs={"a": [2]})
    no = graph([node("Neg", "x", "b")], outputs={"b": [3]})
    constants = {"w": np.ones(3, F32), "two": np.array([2])}
    choice = node("If", "c", "y", then_branch=yes, else_branch=no)
    made = model([choice], {"x": [3], "c": (np.bool_, [])}, {"y": None}, constants=constants)
    prepared = TorchExecutor().prepare(Segment(made, ("x", "c"), ("y",)), "/")
    assert prepared.run([np.ones(3, F32), np.array(False)], [None])[0].tolist() == [-1] * 3
    with pytest.raises(RankFailed, match="Reshape a"):
        prepared.run([np.ones(3, F32), np.array(True)], [None])
    alone = model([node("Reshape", "w two", "y")], {"x": [3]}, {"y": None}, constants=constants)
    with pytest.raises(ModelError, match="Reshape y"):
        TorchExecutor().prepare(Segment(alone, ("x",), ("y",)), "/")


def test_nodes_of_all_segments_are_in_one_error() -> None:
    nodes = [
        node("Mystery", "x", "a"),
        collective("AllReduce", "a", "b"),
        node("Riddle", "b", "y"),
    ]
    made = loaded(nodes, {"x": [4]}, {"y": [4]}, {"a": [4], "b": [4]})
    prepare = partial(TorchExecutor().prepare, folder="/")
    plan = make_plan(made, 0, 1)
    steps = StepPreparation(plan, prepare, None, None)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="cannot run 2 nodes: Mystery Mystery a; Riddle Riddle y"):
        steps.steps(plan.steps, {}, {})


def test_a_convolution_takes_kernels_of_several_sizes() -> None:
    made = model(
        [node("Conv", "x w", "y", auto_pad="SAME_UPPER")],
        {"x": [1, 1, 6], "w": [1, 1, "k"]},
        {"y": None},
    )
    prepared = TorchExecutor().prepare(Segment(made, ("x", "w"), ("y",)), "/")
    for size in (3, 5, 3):
        (y,) = prepared.run([np.ones((1, 1, 6), F32), np.ones((1, 1, size), F32)], [None])
        assert y.shape == (1, 1, 6) and y[0, 0, 3] == min(size, 5)
