from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx_models import BF16, model, node

from rankmesh.comm.errors import ModelError, RankFailed, UsageError
from rankmesh.compiler.element_types.dtypes import to_onnx
from rankmesh.worker.executors.onnxruntime import OnnxRuntime
from rankmesh.worker.partition.plan import Segment

F32 = np.float32


@pytest.fixture(scope="module")
def executor() -> OnnxRuntime:
    return OnnxRuntime()


def segment(
    nodes: list[Any], inputs: dict[str, Any], outputs: dict[str, Any], **more: Any
) -> Segment:
    return Segment(model(nodes, inputs, outputs, **more), tuple(inputs), tuple(outputs))


def doubling(shape: Any = (4,), dtype: Any = F32) -> Segment:
    return segment([node("Add", "x x", "y")], {"x": (dtype, shape)}, {"y": (dtype, shape)})


def test_results_are_written_where_they_are_wanted(executor: OnnxRuntime) -> None:
    prepared = executor.prepare(doubling(), "/")
    for value in (1.0, 2.0):
        x, y = np.full(4, value, F32), np.zeros(4, F32)
        (result,) = prepared.run([x], [y])
        assert result is y
        np.testing.assert_array_equal(y, x * 2)


def test_a_shape_that_is_declared_wrong_is_no_obstacle(executor: OnnxRuntime) -> None:
    wrong = segment([node("Add", "x x", "y")], {"x": [4]}, {"y": [2, 2]})
    prepared, x = executor.prepare(wrong, "/"), np.arange(4, dtype=F32)
    for _ in range(2):
        room = np.zeros((2, 2), F32)
        (result,) = prepared.run([x], [room])
        np.testing.assert_array_equal(result, x * 2)
        np.testing.assert_array_equal(room, 0)


def test_a_scalar_has_its_place_and_one_number_of_another_rank_has_its_shape(
    executor: OnnxRuntime,
) -> None:
    one = segment([node("Add", "x w", "y")], {"x": ["n"], "w": []}, {"y": []})
    prepared, room, w = executor.prepare(one, ""), np.zeros((), F32), np.array(2, F32)
    (result,) = prepared.run([np.array([5], F32), w], [room])
    assert result.shape == (1,) and result.tolist() == [7.0]
    scalar = executor.prepare(segment([node("Abs", "x", "y")], {"x": []}, {"y": []}), "")
    for number in (-3.0, -4.0):
        (result,) = scalar.run([np.array(number, F32)], [room])
        assert result is room and room == -number


def test_the_same_arrays_again_with_other_contents(executor: OnnxRuntime) -> None:
    prepared, x, y = executor.prepare(doubling(), "/"), np.zeros(4, F32), np.zeros(4, F32)
    for value in (1.0, 5.0, -3.0):
        x[:] = value
        prepared.run([x], [y])
        np.testing.assert_array_equal(y, x * 2)


@pytest.mark.parametrize(("copies", "bindings"), [(False, 1), (True, 3)])
def test_where_binding_copies_each_run_binds(
    executor: OnnxRuntime, monkeypatch: pytest.MonkeyPatch, copies: bool, bindings: int
) -> None:
    """On a GPU onnxruntime takes a host's input over when it is bound, and sees no later change of
    it.
    """
    prepared = executor.prepare(doubling(), "/")
    monkeypatch.setattr(prepared, "_copies", copies)
    bound: list[int] = []
    bind = prepared._bind_input
    monkeypatch.setattr(
        prepared, "_bind_input", lambda index, array: (bound.append(index), bind(index, array))
    )
    x, y = np.zeros(4, F32), np.zeros(4, F32)
    for _ in range(3):
        prepared.run([x], [y])
    assert len(bound) == bindings


def test_arrays_stay_alive_while_they_are_bound(executor: OnnxRuntime) -> None:
    size = [1 << 16]
    prepared = executor.prepare(
        segment([node("Add", "x w", "y")], {"x": size, "w": size}, {"y": size}), "/"
    )
    first = np.ones(1 << 16, F32)
    for value in range(
        5
    ):  # each round's arrays die after it, and their memory is used for the next ones
        results = prepared.run([first, np.full(1 << 16, value, F32)], [np.empty(1 << 16, F32)])
        np.testing.assert_array_equal(results[0], value + 1)


def test_unknown_shapes_come_as_new_arrays(executor: OnnxRuntime) -> None:
    prepared = executor.prepare(doubling(["n"]), "/")
    results = [prepared.run([np.ones(size, F32) * size], [None])[0] for size in (2, 3, 0, 3)]
    assert [r.shape for r in results] == [(2,), (3,), (0,), (3,)]
    for result, size in zip(results, (2, 3, 0, 3), strict=True):
        np.testing.assert_array_equal(result, np.full(size, size * 2, F32))
    assert not np.shares_memory(results[1], results[3])


def test_known_and_unknown_shapes_side_by_side(executor: OnnxRuntime) -> None:
    prepared = executor.prepare(
        segment(
            [node("NonZero", "x", "i"), node("Neg", "x", "y"), node("Abs", "x", "z")],
            {"x": [4]},
            {"i": (np.int64, [1, None]), "y": [4], "z": [4]},
        ),
        "/",
    )
    y, z = np.empty(4, F32), np.empty(4, F32)
    for x in (np.array([0, 1, 0, -2], F32), np.zeros(4, F32), np.arange(4, dtype=F32)):
        i, got_y, got_z = prepared.run([x], [None, y, z])
        assert got_y is y and got_z is z
        np.testing.assert_array_equal(i, np.nonzero(x))
        np.testing.assert_array_equal(y, -x)
        np.testing.assert_array_equal(z, abs(x))


def test_a_place_may_be_given_one_time_and_not_the_other(executor: OnnxRuntime) -> None:
    prepared, y = executor.prepare(doubling(["n"]), "/"), np.zeros(2, F32)
    for wanted in (None, y, None, y):
        y[:] = 0
        (result,) = prepared.run([np.ones(2, F32)], [wanted])
        np.testing.assert_array_equal(result, 2)
        assert (result is y) == (wanted is y) and y[0] == (0 if wanted is None else 2)


@pytest.mark.parametrize(
    "dtype",
    [
        np.float32,
        np.float64,
        np.float16,
        BF16,
        np.int8,
        np.uint8,
        np.int16,
        np.uint16,
        np.int32,
        np.uint32,
        np.int64,
        np.uint64,
        np.bool_,
    ],
)
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("shape", [(3,), (), (0, 2)])
def test_types(executor: OnnxRuntime, dtype: Any, known: bool, shape: tuple[int, ...]) -> None:
    declared = list(shape) if known else None
    one = segment([node("Identity", "x", "y")], {"x": (dtype, declared)}, {"y": (dtype, declared)})
    x = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    (y,) = executor.prepare(one, "/").run([x], [np.empty(shape, dtype) if known else None])
    assert y.dtype == x.dtype and y.shape == shape
    np.testing.assert_array_equal(y, x)


def test_a_segment_that_onnxruntime_refuses(executor: OnnxRuntime) -> None:
    strange = segment([helper.make_node("Mystery", ["x"], ["y"])], {"x": [4]}, {"y": [4]})
    with pytest.raises(
        ModelError, match="onnxruntime refuses the segment that ends in y: .*Mystery"
    ):
        executor.prepare(strange, "/")


def test_a_segment_that_fails(executor: OnnxRuntime) -> None:
    prepared = executor.prepare(
        segment(
            [node("Reshape", "x shape", "y")], {"x": ["n"], "shape": (np.int64, [1])}, {"y": ["m"]}
        ),
        "/",
    )
    good = prepared.run([np.ones(3, F32), np.array([3])], [None])
    with pytest.raises(
        RankFailed, match="onnxruntime failed in the segment that ends in y: .*Reshape y"
    ):
        prepared.run([np.ones(3, F32), np.array([5])], [None])
    np.testing.assert_array_equal(good[0], np.ones(3))


def test_external_weights_come_from_the_models_folder(
    executor: OnnxRuntime, tmp_path: Path
) -> None:
    np.arange(6, dtype=F32).tofile(tmp_path / "w.bin")
    weight = TensorProto(
        name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL
    )
    for key, value in (("location", "w.bin"), ("offset", "8"), ("length", "16")):
        weight.external_data.add(key=key, value=value)
    prepared = executor.prepare(
        segment([node("Add", "x w", "y")], {"x": [4]}, {"y": [4]}, constants={"w": weight}),
        str(tmp_path),
    )
    np.testing.assert_array_equal(prepared.run([np.zeros(4, F32)], [None])[0], [2, 3, 4, 5])


@pytest.mark.skipif(
    "CUDAExecutionProvider" in onnxruntime.get_available_providers(),
    reason="onnxruntime-gpu is there",
)
def test_a_device_that_onnxruntime_has_not() -> None:
    with pytest.raises(
        UsageError, match=r"device gpu: .* no CUDAExecutionProvider .* Install rankmesh\[gpu\], or"
    ):
        OnnxRuntime("gpu")


def test_several_threads_share_one_pool() -> None:
    """In a process of its own, as the pool is the whole process's: sessions add no thread each."""
    program = """
import os, sys
import numpy as np
sys.path.insert(0, sys.argv[1])
from onnx_models import model, node
from rankmesh.compiler.element_types.dtypes import to_onnx
from rankmesh.worker.executors.onnxruntime import OnnxRuntime
from rankmesh.worker.partition.plan import Segment
executor = OnnxRuntime(threads=3, spin=False)
segment = Segment(model([node("MatMul", "x x", "y")], {"x": [64, 64]}, {"y": [64, 64]}), ("x",), ("y",))
counts = []
for _ in range(4):
    prepared = executor.prepare(segment, "/")
    (y,) = prepared.run([np.ones((64, 64), np.float32)], [None])
    assert (y == 64).all()
    counts.append(len(os.listdir("/proc/self/task")))
print(counts[-1] - counts[0])
"""  # noqa: E501
    support = Path(__file__).parents[2] / "support"
    done = subprocess.run(
        [sys.executable, "-c", program, str(support)], capture_output=True, text=True, timeout=250
    )
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


@pytest.mark.parametrize(
    "dtype", [F32, np.float16, np.float64, np.int8, np.int64, np.uint16, np.bool_, BF16], ids=str
)
@pytest.mark.parametrize("size", [3, 1000])
def test_initializers_in_memory_at_any_place(executor: OnnxRuntime, dtype: Any, size: int) -> None:
    """They are copied: the memory may change, and go, once the segment is prepared."""
    values = (np.arange(size) % 2).astype(dtype)
    memory = bytearray(b"odd" + values.tobytes())
    record = TensorProto(
        name="w", data_type=to_onnx(values.dtype), dims=[size], data_location=TensorProto.EXTERNAL
    )
    for key, value in (("location", "m.mindir"), ("offset", "3"), ("length", str(values.nbytes))):
        record.external_data.add(key=key, value=value)
    one = segment(
        [node("Gather", "w i", "y")],
        {"i": (np.int64, [size])},
        {"y": (values.dtype, [size])},
        constants={"w": record},
    )
    prepared = executor.prepare(one, "/", {"m.mindir": memoryview(memory)})
    memory[:] = bytes(len(memory))
    (got,) = prepared.run([np.arange(size)], [np.empty(size, values.dtype)])
    assert got.tobytes() == values.tobytes()
