"""Nodes in another floating-point type: what is computed, and what stays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import ModelProto, NodeProto, numpy_helper
from onnx_models import BF16, graph, model, node

from rankmesh.compiler.onnx_graph.element_types import FLOAT, HALF, has_halves
from rankmesh.compiler.onnx_graph.retype import retyped
from rankmesh.worker.executors.narrow_kernels import has_narrow_kernel

F16, F32 = np.float16, np.float32


def changed(
    proto: ModelProto,
    target: int,
    always: bool = False,
    only: Sequence[str] = (),
    kernels: bool | None = None,
) -> ModelProto:
    """`proto` with all its nodes, or those of the operators `only`, in `target`; with kernels as on
    this CPU.
    """

    def choose(one: NodeProto) -> tuple[int | None, bool]:
        return (target if not only or one.op_type in only else None), always

    def has_kernel(kind: int, op_type: str, domain: str, version: int) -> bool:
        if kernels is not None:
            return kernels
        return has_narrow_kernel("cpu", kind, op_type, domain, version)

    result = retyped(proto, choose, has_kernel, numpy_helper.to_array)
    onnx.checker.check_model(result, full_check=True)
    return result


def compute(proto: ModelProto, *inputs: np.ndarray) -> list[np.ndarray]:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    results: list[np.ndarray] = session.run(
        None, {i.name: x for i, x in zip(proto.graph.input, inputs, strict=True)}
    )
    return results


def op_types(proto: ModelProto) -> list[str]:
    return [one.op_type for one in proto.graph.node]


def shift(dtype: type) -> ModelProto:
    """y = (x + 1) - 1: in float16 what is left of a small x are multiples of 2**-10."""
    return model(
        [node("Add", "x one", "a"), node("Sub", "a one", "y")],
        {"x": (dtype, [4])},
        {"y": (dtype, [4])},
        constants={"one": np.ones(1, dtype)},
    )


SMALL = np.array([1e-4, 7e-4, 0.3, 5], F32)


def test_float32_nodes_become_float16_bit_for_bit():
    (got,) = compute(changed(shift(F32), HALF), SMALL)
    one = F16(1)
    expected = (SMALL.astype(F16) + one) - one
    assert got.dtype == F32
    np.testing.assert_array_equal(got, expected.astype(F32))
    assert not np.array_equal(got, compute(shift(F32), SMALL)[0])


def test_float16_nodes_become_float32():
    half = SMALL.astype(F16)
    (got,) = compute(changed(shift(F16), FLOAT), half)
    one = F32(1)
    np.testing.assert_array_equal(got, ((half.astype(F32) + one) - one).astype(F16))


def test_bfloat16_nodes_become_float32():
    proto = changed(shift(BF16.type), FLOAT)
    assert has_halves(shift(BF16.type).graph) and op_types(proto).count("Cast") == 3
    assert proto.graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16


def test_where_there_are_kernels_no_number_is_cast_twice():
    proto = changed(shift(F32), HALF, kernels=True)
    assert op_types(proto) == ["Cast", "Cast", "Add", "Sub", "Cast"]  # x, one, and the result


def test_single_nodes_change_alone():
    (got,) = compute(changed(shift(F32), HALF, only=["Add"]), SMALL)
    np.testing.assert_array_equal(got, (SMALL.astype(F16) + F16(1)).astype(F32) - F32(1))


def test_a_cast_that_the_model_itself_makes_still_rounds():
    proto = model(
        [node("Cast", "x", "h", to=HALF), node("Cast", "h", "y", to=FLOAT)], {"x": [3]}, {"y": [3]}
    )
    x = np.array([0.1, 70000, np.nan], F32)
    with np.errstate(over="ignore"):
        expected = x.astype(F16).astype(F32)
    np.testing.assert_array_equal(compute(changed(proto, FLOAT), x)[0], expected)


def test_large_constants_become_the_largest_float16_and_infinities_stay():
    mask = np.array([0, -1e9, 1e9, np.inf, -np.inf, np.nan], F32)
    proto = model([node("Mul", "x mask", "y")], {"x": [6]}, {"y": [6]}, constants={"mask": mask})
    (got,) = compute(changed(proto, HALF), np.ones(6, F32))
    np.testing.assert_array_equal(got, [0, -65504, 65504, np.inf, -np.inf, np.nan])
    (none,) = compute(changed(proto, HALF), np.zeros(6, F32))
    np.testing.assert_array_equal(none[:3], 0)  # 0 * -infinity would be no number


@pytest.mark.parametrize("periodic", [False, True])
def test_positions_and_angles_stay_float32(periodic: bool):
    last = node("Sin", "p", "y") if periodic else node("Cast", "p", "y", to=onnx.TensorProto.INT64)
    proto = model(
        [node("Mul", "x step", "p"), last],
        {"x": [3]},
        {"y": (F32 if periodic else np.int64, [3])},
        constants={"step": np.full(1, 1.001, F32)},
    )
    x = np.array([4097, 5001, 9999], F32)  # float16 counts to 2048
    np.testing.assert_array_equal(compute(changed(proto, HALF), x)[0], compute(proto, x)[0])
    forced = compute(changed(proto, HALF, always=True), x)[0]
    assert not np.array_equal(forced, compute(proto, x)[0])


@pytest.mark.parametrize("condition", [True, False])
@pytest.mark.parametrize(("dtype", "target"), [(F32, HALF), (F16, FLOAT)])
def test_branches_change_inside(condition: bool, dtype: type, target: int):
    """`a` was made in the other type, and is taken by a branch only."""
    then = graph([node("Sub", "a one", "t")], outputs={"t": (dtype, [4])})
    other = graph([node("Mul", "a one", "u")], outputs={"u": (dtype, [4])})
    nodes = [node("Add", "x one", "a"), node("If", "c", "y", then_branch=then, else_branch=other)]
    proto = model(
        nodes,
        {"x": (dtype, [4]), "c": (np.bool_, [])},
        {"y": (dtype, [4])},
        constants={"one": np.ones(1, dtype)},
    )
    (got,) = compute(changed(proto, target), SMALL.astype(dtype), np.array(condition))
    within = F16 if target == HALF else F32
    total = (SMALL.astype(dtype).astype(within) + within(1)).astype(dtype).astype(within)
    np.testing.assert_array_equal(got, (total - within(1) if condition else total).astype(dtype))


def test_loops_keep_the_types_that_they_carry():
    body = graph(
        [node("Add", "v one", "w"), node("Identity", "k", "kk")],
        {"i": (np.int64, []), "k": (np.bool_, []), "v": (F32, [4])},
        {"kk": (np.bool_, []), "w": (F32, [4])},
    )
    proto = model(
        [node("Loop", "n k0 x", "y", body=body)],
        {"x": [4]},
        {"y": [4]},
        constants={"n": np.array(3), "k0": np.array(True), "one": np.ones(1, F32)},
    )
    (got,) = compute(changed(proto, HALF), SMALL)
    expected = SMALL.astype(F16)
    for _ in range(3):
        expected = expected + F16(1)
    np.testing.assert_array_equal(got, expected.astype(F32))


def test_nodes_may_be_called_like_values():
    """The result is cast back under its own name `y`, which is another node's."""
    proto = shift(F32)
    proto.graph.node[0].name = "y"
    assert len(compute(changed(proto, HALF), SMALL)) == 1


def test_a_kernel_that_only_refuses_is_not_used():
    proto = model(
        [node("ScatterND", "x i u", "y", reduction="add")],
        {"x": [4], "u": [2]},
        {"y": [4]},
        constants={"i": np.array([[1], [1]])},
    )
    (got,) = compute(changed(proto, HALF), np.ones(4, F32), np.ones(2, F32))
    np.testing.assert_array_equal(got, [1, 3, 1, 1])


def test_inputs_that_an_operator_wants_in_float32_stay():
    resize = onnx.helper.make_node("Resize", ["r", "", "scales"], ["y"], mode="nearest")
    proto = model(
        [node("Relu", "x", "r"), node("Add", "s zero", "scales"), resize],
        {"x": [1, 1, 2, 2], "s": [4]},
        {"y": [1, 1, 4, 4]},
        constants={"zero": np.zeros(1, F32)},
    )
    x = np.arange(4, dtype=F32).reshape(1, 1, 2, 2)
    (got,) = compute(changed(proto, HALF), x, np.array([1, 1, 2, 2], F32))
    np.testing.assert_array_equal(got, x.repeat(2, 2).repeat(2, 3))


def test_several_precisions_in_one_node():
    """LayerNormalization's mean is float32 whatever its input is."""
    proto = model(
        [node("LayerNormalization", "x g", "y mean")],
        {"x": (F32, [2, 8])},
        {"y": [2, 8], "mean": [2, 1]},
        constants={"g": np.ones(8, F32)},
    )
    x = np.random.default_rng(0).standard_normal((2, 8)).astype(F32)
    for got, exact in zip(compute(changed(proto, HALF), x), compute(proto, x), strict=True):
        assert got.dtype == F32
        np.testing.assert_allclose(got, exact, rtol=0, atol=4e-3)
        assert not np.array_equal(got, exact)


def test_what_onnx_does_not_know_stays():
    """A contrib operator has no schema in onnx: its neighbours change, it does not."""
    gelu = onnx.helper.make_node("Gelu", ["a"], ["g"], domain="com.microsoft")
    proto = model([node("Add", "x x", "a"), gelu, node("Add", "g x", "y")], {"x": [4]}, {"y": [4]})
    proto.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    got = retyped(proto, lambda _: (HALF, False), lambda *_: False, numpy_helper.to_array)
    exact = compute(proto, SMALL)[0]
    np.testing.assert_allclose(compute(got, SMALL)[0], exact, rtol=2e-3)


def test_has_halves():
    assert not has_halves(shift(F32).graph)
    inner = graph(
        [node("Cast", "x", "h", to=HALF), node("Cast", "h", "t", to=FLOAT)], outputs={"t": [4]}
    )
    other = graph([node("Identity", "x", "u")], outputs={"u": [4]})
    assert has_halves(
        model(
            [node("If", "c", "y", then_branch=inner, else_branch=other)],
            {"x": [4], "c": (np.bool_, [])},
            {"y": [4]},
        ).graph
    )
