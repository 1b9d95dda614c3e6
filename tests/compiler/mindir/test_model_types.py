"""Every element type and every kind of shape through Model and Tensor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import ModelProto
from onnx_models import model, node

from rankmesh import Context, DataType, Model, ModelType, Tensor
from rankmesh.compiler.mindir.mindir_pb2 import ModelProto as MindIR

TYPES: list[tuple[Any, DataType | None]] = [
    (np.bool_, DataType.BOOL),
    (np.int8, DataType.INT8),
    (np.int16, DataType.INT16),
    (np.int32, DataType.INT32),
    (np.int64, DataType.INT64),
    (np.uint8, DataType.UINT8),
    (np.uint16, DataType.UINT16),
    (np.uint32, DataType.UINT32),
    (np.uint64, DataType.UINT64),
    (np.float16, DataType.FLOAT16),
    (np.float32, DataType.FLOAT32),
    (np.float64, DataType.FLOAT64),
    (ml_dtypes.bfloat16, None),
]
SHAPES: list[tuple[int, ...]] = [(), (1,), (0,), (2, 3), (2, 0, 3)]


def opened(path: Path, proto: ModelProto | MindIR) -> Model:
    path.write_bytes(proto.SerializeToString())
    context, made = Context(), Model()
    context.cpu.thread_num = 1
    made.build_from_file(str(path), ModelType.MINDIR, context)
    return made


def numbers(dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The type's extremes among others, where it has any."""
    kind = np.dtype(dtype)
    array = np.arange(int(np.prod(shape))).astype(kind)
    if kind.kind in "iu" and array.size > 2:
        array[:2] = np.iinfo(kind).min, np.iinfo(kind).max
    elif kind.kind == "f" and array.size > 2:
        array[:3] = np.nan, np.inf, np.finfo(kind).smallest_subnormal
    return array.reshape(shape)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("dtype", "data_type"), TYPES)
def test_types_and_shapes_in_and_out(
    dtype: Any, data_type: DataType | None, shape: tuple[int, ...], tmp_path: Path
):
    """A passthrough, a copy that is computed, and a constant that is returned."""
    array, kind = numbers(dtype, shape), (dtype, list(shape))
    made = opened(
        tmp_path / "m.onnx",
        model(
            [
                node("Identity", "x", "y"),
                node("Unsqueeze", "x axis", "z"),
                node("Identity", "c", "k"),
            ],
            {"x": kind},
            {"y": kind, "z": (dtype, [1, *shape]), "k": kind},
            constants={"axis": np.array([0]), "c": array},
        ),
    )
    tensor = made.get_inputs()[0]
    assert (tensor.dtype, tensor.shape, tensor.data_size) == (data_type, list(shape), array.nbytes)
    tensor.set_data_from_numpy(array)
    for inputs in ([tensor], [array]):
        for output, expected in zip(
            made.predict(inputs), (array, array[np.newaxis], array), strict=True
        ):
            got = output.get_data_to_numpy()
            assert (got.dtype, got.shape, output.dtype) == (array.dtype, expected.shape, data_type)
            assert (output.data_size, output.element_num) == (array.nbytes, array.size)
            assert got.tobytes() == expected.tobytes()
            assert not np.shares_memory(got, array)


@pytest.mark.parametrize("shape", [(0, 3), (2, 3), (0, 0)])
def test_dimensions_that_turn_out_to_be_zero(shape: tuple[int, int], tmp_path: Path):
    made = opened(
        tmp_path / "m.onnx",
        model(
            [node("ReduceSum", "x axis", "s", keepdims=0), node("MatMul", "x w", "y")],
            {"x": [None, None]},
            {"s": [None], "y": [None, 2]},
            constants={"axis": np.array([1]), "w": np.ones((shape[1], 2), np.float32)},
        ),
    )
    x = np.ones(shape, np.float32)
    total, product = (t.get_data_to_numpy() for t in made.predict([x]))
    np.testing.assert_array_equal(total, x.sum(1))
    np.testing.assert_array_equal(product, x @ np.ones((shape[1], 2), np.float32))


@pytest.mark.parametrize("shape", [(), (3,), (0,), (2, 3, 4)])
def test_inputs_of_unknown_rank(shape: tuple[int, ...], tmp_path: Path):
    """As MindIR writes them: one dimension of -2; relu(x)."""
    file = MindIR(ir_version="1.1", producer_name="tests", model_version="1", little_endian=True)
    file.graph.name = "g"
    file.graph.input.add(name="g:x").tensor.add(dims=[-2], data_type=1)
    file.primitives.add(name="ReLU:1", op_type="ReLU", prim_type=1)
    relu = file.graph.node.add(
        op_type="REF::ReLU:1", input=["g:x"], output=["y"], domain="Default/ReLU-op0"
    )
    kind = relu.attribute.add(name="shape", type=19)
    kind.tensors.add(dims=[-2], data_type=1)
    file.graph.output.add(name="y").tensor.add(dims=[-2], data_type=1)
    made = opened(tmp_path / "m.mindir", file)
    for described in (*made.get_inputs(), *made.get_outputs()):
        assert (described.shape, described.element_num, described.data_size) == ([-2], 0, 0)
    x = np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)
    for inputs in ([x], [Tensor(x)]):
        got = made.predict(inputs)[0].get_data_to_numpy()
        np.testing.assert_array_equal(got, np.maximum(x, 0))
        assert got.shape == shape
    made.resize(made.get_inputs(), [[2, 2]])
    assert made.get_inputs()[0].shape == [2, 2]
    np.testing.assert_array_equal(
        made.predict([-np.ones(4, np.float32)])[0].get_data_to_numpy(), np.zeros((2, 2))
    )


def test_results_of_one_value_do_not_share_memory(tmp_path: Path):
    made = opened(
        tmp_path / "m.onnx",
        model(
            [node("Neg", "x", "n"), node("Identity", "n", "m")], {"x": [2]}, {"n": [2], "m": [2]}
        ),
    )
    first, second = (t.get_data_to_numpy() for t in made.predict([np.ones(2, np.float32)]))
    first[:] = 7
    np.testing.assert_array_equal(second, [-1, -1])


def test_a_type_that_onnxruntime_lacks_is_named(tmp_path: Path):
    proto = model(
        [node("Identity", "x", "y"), node("Reshape", "y s", "z")],
        {"x": (np.complex64, [2])},
        {"z": (np.complex64, [2])},
        constants={"s": np.array([2])},
    )
    with pytest.raises(
        RuntimeError, match=r"build_from_file failed! Error is .*m\.onnx.*complex64"
    ):
        opened(tmp_path / "m.onnx", proto)


@pytest.mark.parametrize(
    "given", [np.ones(2, np.float64), np.ones(2, ">f4"), np.ones(3, np.float32)]
)
def test_data_of_another_type_or_size_are_refused(given: np.ndarray, tmp_path: Path):
    made = opened(tmp_path / "m.onnx", model([node("Neg", "x", "y")], {"x": [2]}, {"y": [2]}))
    with pytest.raises(RuntimeError, match="predict failed! Error is the input 'x' "):
        made.predict([given])
    assert made.predict([np.ones(2, np.float32)])[0].shape == [2]
