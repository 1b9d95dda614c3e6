"""The torch executor: arrays in place, shapes that change, weights that are mapped, errors."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_models import BF16, graph, model, node

pytest.importorskip("torch")

from rankmesh.comm.errors import ModelError, RankFailed
from rankmesh.compiler.element_types.dtypes import ELEMENT_TYPES, to_onnx
from rankmesh.worker.executors.affinity import bound_to
from rankmesh.worker.executors.torch import TorchExecutor
from rankmesh.worker.executors.torch.torch_segment import MOST_LISTS
from rankmesh.worker.partition.plan import Segment

pytestmark = pytest.mark.pure
F32, I64 = np.float32, np.int64
REAL = [row.numpy for row in ELEMENT_TYPES if row.numpy.kind != "c"]


@pytest.fixture(scope="module")
def executor() -> TorchExecutor:
    return TorchExecutor()


def segment(
    nodes: list[Any], inputs: dict[str, Any], outputs: dict[str, Any], **more: Any
) -> Segment:
    return Segment(model(nodes, inputs, outputs, **more), tuple(inputs), tuple(outputs))


def external(name: str, values: np.ndarray, place: str, offset: int) -> TensorProto:
    record = TensorProto(
        name=name,
        data_type=to_onnx(values.dtype),
        dims=values.shape,
        data_location=TensorProto.EXTERNAL,
    )
    entries = {"location": place, "offset": offset, "length": values.nbytes}
    for key, value in entries.items():
        record.external_data.add(key=key, value=str(value))
    return record


def test_results_are_written_where_they_are_wanted(executor: TorchExecutor) -> None:
    prepared = executor.prepare(segment([node("Add", "x x", "y")], {"x": [4]}, {"y": [4]}), "/")
    x, y = np.zeros(4, F32), np.zeros(4, F32)
    for value in (1.0, 2.0, -3.0):
        x[:] = value
        (result,) = prepared.run([x], [y])
        assert result is y
        np.testing.assert_array_equal(y, x * 2)
    room = np.zeros((2, 2), F32)  # of a file that declares another shape
    (result,) = prepared.run([x], [room])
    np.testing.assert_array_equal(result, x * 2)
    np.testing.assert_array_equal(room, 0)


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_every_dtype_goes_in_and_out(executor: TorchExecutor, dtype: Any) -> None:
    one = segment([node("Identity", "x", "y")], {"x": (dtype, ["n"])}, {"y": (dtype, ["n"])})
    prepared = executor.prepare(one, "/")
    for size in (3, 0):
        x = np.arange(size).astype(dtype)
        x.setflags(write=False)
        (y,) = prepared.run([x], [None])
        assert y.dtype == x.dtype and not np.shares_memory(x, y) and y.flags.writeable
        np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("dtype", [d for d in REAL if d.kind in "uif" or d == BF16], ids=str)
def test_dtypes_without_kernels_are_computed_in_wider_ones(
    executor: TorchExecutor, dtype: Any
) -> None:
    nodes = [node("Mul", "x x", "s"), node("TopK", "s k", "y i")]
    one = segment(
        nodes,
        {"x": (dtype, [3])},
        {"y": (dtype, [2]), "i": (I64, [2])},
        constants={"k": np.array([2])},
    )
    y, i = executor.prepare(one, "/").run([np.array([2, 3, 1]).astype(dtype)], [None, None])
    assert y.dtype == dtype and y.tolist() == [9, 4] and i.tolist() == [1, 0]


def test_shapes_are_computed_once_for_each_shape(executor: TorchExecutor) -> None:
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "n"),
        node("Concat", "n rest", "shape", axis=0),
        node("Reshape", "x shape", "y"),
    ]
    constants = {"zero": np.array([0]), "rest": np.array([2, -1])}
    one = segment(nodes, {"x": ["n", 6]}, {"y": ["n", 2, 3]}, constants=constants)
    prepared = executor.prepare(one, "/")
    for size in (*range(1, MOST_LISTS + 5), 2, 2):
        x = np.arange(6 * size, dtype=F32).reshape(size, 6)
        (y,) = prepared.run([x], [None])
        np.testing.assert_array_equal(y, x.reshape(size, 2, 3))
    assert len(prepared.lists) == MOST_LISTS
    assert [len(calls.calls) for calls in prepared.lists.values()] == [1] * MOST_LISTS


def test_shapes_that_data_decide_are_computed_in_every_run(executor: TorchExecutor) -> None:
    nodes = [node("NonZero", "x", "i"), node("Shape", "i", "s")]
    prepared = executor.prepare(segment(nodes, {"x": [4]}, {"s": (I64, [2])}), "/")
    for x in ([0, 1, 0, 1], [1, 1, 1, 0]):
        assert prepared.run([np.array(x, F32)], [None])[0].tolist() == [1, sum(x)]


def test_outputs_share_no_memory(executor: TorchExecutor) -> None:
    nodes = [
        node("Identity", "x", "a"),
        node("Transpose", "x", "b", perm=[0, 1]),
        node("Identity", "w", "c"),
        node("Slice", "w zero one", "d"),
    ]
    constants = {
        "w": np.ones((4, 4), F32),
        "zero": np.array([0]),
        "one": np.array([1]),
    }
    wide = {name: [4, 4] for name in "abc"}
    one = segment(nodes, {"x": [4, 4]}, {**wide, "d": [1, 4]}, constants=constants)
    prepared, x = executor.prepare(one, "/"), np.ones((4, 4), F32)
    for _ in range(2):
        for array in prepared.run([x], [None] * 4):
            assert (array == 1).all()
            array[:] = 7
        assert (x == 1).all()


def test_weights_stay_in_their_file(executor: TorchExecutor, tmp_path: Path) -> None:
    values = np.arange(1 << 16, dtype=F32)
    (tmp_path / "w.bin").write_bytes(bytes(64) + values.tobytes())
    weight = external("w", values, "w.bin", 64)
    one = segment([node("Add", "x w", "y")], {"x": [1]}, {"y": [1 << 16]}, constants={"w": weight})
    prepared = executor.prepare(one, str(tmp_path))
    with open(tmp_path / "w.bin", "r+b") as file:  # a copy would not see it
        file.seek(64)
        file.write(np.float32(5).tobytes())
    (y,) = prepared.run([np.zeros(1, F32)], [None])
    assert y[0] == 5 and (y[1:] == values[1:]).all()


@pytest.mark.parametrize("dtype", [F32, np.float16, I64, np.bool_, BF16], ids=str)
def test_weights_in_memory_are_copied(executor: TorchExecutor, dtype: Any) -> None:
    values = (np.arange(9) % 2).astype(dtype)
    memory = bytearray(b"odd" + values.tobytes())
    weight = external("w", values, "m.mindir", 3)
    one = segment(
        [node("Gather", "w i", "y")],
        {"i": (I64, [9])},
        {"y": (values.dtype, [9])},
        constants={"w": weight},
    )
    prepared = executor.prepare(one, "/", {"m.mindir": memoryview(memory)})
    memory[:] = bytes(len(memory))
    assert prepared.run([np.arange(9)], [None])[0].tobytes() == values.tobytes()


def test_a_saved_segment_is_loaded_with_its_weights_mapped(
    executor: TorchExecutor, tmp_path: Path
) -> None:
    constants = {"w": np.arange(600, dtype=F32), "b": np.ones(1, F32)}
    nodes = [node("Mul", "x w", "p"), node("Add", "p b", "y")]
    one = segment(nodes, {"x": [600]}, {"y": [600]}, constants=constants)
    place = str(tmp_path / "1.onnx")
    executor.save(one, "/", place)
    assert (tmp_path / "1.onnx.weights").stat().st_size == 2400
    (y,) = executor.load(one, place).run([np.full(600, 2, F32)], [None])
    np.testing.assert_array_equal(y, 2 * np.arange(600) + 1)
    with pytest.raises(ModelError, match="cannot be read"):
        executor.load(one, str(tmp_path / "2.onnx"))


def test_a_branch_takes_values_around_it(executor: TorchExecutor) -> None:
    yes = graph([node("Add", "x w", "a")], outputs={"a": [2]})
    no = graph([node("Sub", "x x", "b")], outputs={"b": [2]})
    choice = node("If", "c", "y", then_branch=yes, else_branch=no)
    one = segment(
        [choice],
        {"x": [2], "c": (np.bool_, [])},
        {"y": [2]},
        constants={"w": np.array([1, 2], F32)},
    )
    prepared = executor.prepare(one, "/")
    for condition, wanted in ((True, [2, 3]), (False, [0, 0])):
        (y,) = prepared.run([np.ones(2, F32), np.array(condition)], [None])
        assert y.tolist() == wanted


def test_a_branch_has_weights_in_a_file(executor: TorchExecutor, tmp_path: Path) -> None:
    values = np.arange(3, dtype=F32)
    (tmp_path / "w.bin").write_bytes(values.tobytes())
    weight = external("w", values, "w.bin", 0)
    yes = graph([node("Identity", "w", "a")], outputs={"a": [3]}, constants={"w": weight})
    no = graph([node("Neg", "x", "b")], outputs={"b": [3]})
    choice = node("If", "c", "y", then_branch=yes, else_branch=no)
    one = segment([choice], {"x": [3], "c": (np.bool_, [])}, {"y": [3]})
    prepared = executor.prepare(one, str(tmp_path))
    (y,) = prepared.run([np.ones(3, F32), np.array(True)], [None])
    np.testing.assert_array_equal(y, values)
    y[:] = 7
    np.testing.assert_array_equal(prepared.run([y, np.array(True)], [None])[0], values)


def test_misaligned_arrays_are_read_and_written_in_every_run(executor: TorchExecutor) -> None:
    prepared = executor.prepare(segment([node("Neg", "x", "y")], {"x": [2]}, {"y": [2]}), "/")
    x, y = (np.frombuffer(bytearray(9), F32, offset=1) for _ in range(2))
    for value in (1, 2):
        x[:] = value
        prepared.run([x], [y])
        assert y.tolist() == [-value] * 2


def test_each_model_computes_with_threads_of_its_own_number() -> None:
    one = segment([node("Neg", "x", "y")], {"x": [1]}, {"y": [1]})
    prepared = {count: TorchExecutor(threads=count).prepare(one, "/") for count in (1, 2)}
    found: list[int] = []

    def run() -> None:
        import torch

        for count in (2, 1, 2):
            prepared[count].twin().run([np.ones(1, F32)], [None])
            found.append(torch.get_num_threads())

    caller = Thread(target=run)
    caller.start()
    caller.join(60)
    assert found == [2, 1, 2]


def test_all_nodes_that_torch_cannot_run_are_in_one_error(executor: TorchExecutor) -> None:
    strange = [
        helper.make_node("Mystery", ["x"], ["a"], name="first"),
        helper.make_node("Cast", ["a"], ["b"], name="second", to=TensorProto.STRING),
        node("If", "c", "y", then_branch=graph([node("Riddle", "x", "z")], outputs={"z": [4]}),
             else_branch=graph([node("Abs", "x", "z")], outputs={"z": [4]})),
    ]  # fmt: skip
    one = segment(strange, {"x": [4], "c": (np.bool_, [])}, {"y": [4]})
    with pytest.raises(
        ModelError,
        match="cannot run 3 nodes: Mystery first; Cast second: .*string.*; Riddle Riddle z",
    ):
        executor.prepare(one, "/")


def test_an_error_names_the_node(executor: TorchExecutor) -> None:
    one = segment([node("MatMul", "x y", "z")], {"x": ["n"], "y": ["m"]}, {"z": []})
    prepared = executor.prepare(one, "/")
    with pytest.raises(
        RankFailed, match="torch failed in the segment that ends in z: MatMul MatMul z: "
    ):
        prepared.run([np.ones(2, F32), np.ones(3, F32)], [None])


def test_twins_run_at_the_same_time(executor: TorchExecutor) -> None:
    first = executor.prepare(segment([node("Neg", "x", "y")], {"x": ["n"]}, {"y": ["n"]}), "/")
    second = first.twin()
    (one,), (two,) = (p.run([np.full(2, v, F32)], [None]) for p, v in ((first, 1), (second, 2)))
    assert one.tolist() == [-1, -1] and two.tolist() == [-2, -2]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_helpers_have_all_cores_of_a_model() -> None:
    """Not only that of the calling thread, whose cores they would inherit."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    one = segment([node("Exp", "x", "y")], {"x": [1 << 18]}, {"y": [1 << 18]})
    prepared = TorchExecutor(threads=2, cores=cores).prepare(one, "/")
    found: list[set[int]] = []

    def run() -> None:
        before = set(os.listdir("/proc/self/task"))
        with bound_to(cores[:1]):
            prepared.run([np.ones(1 << 18, F32)], [None])
        new = set(os.listdir("/proc/self/task")) - before
        found.extend(set(os.sched_getaffinity(int(task))) for task in new)

    caller = Thread(target=run)
    caller.start()
    caller.join(60)
    TorchExecutor(threads=1)
    assert found == [set(cores)]
