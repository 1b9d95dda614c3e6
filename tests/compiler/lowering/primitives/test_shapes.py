"""Reshaping, slicing, gathering and their kin against numpy, with known and unknown dimensions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from primitives import Fixed, Writer, check, run, same

from rankmesh.comm.errors import ModelError
from rankmesh.compiler.lowering.lower_mindir import lower_mindir
from rankmesh.compiler.mindir.reader import read_model

X = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4)
both = pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
STRIDED = [  # begin, end, strides, masks (begin, end, ellipsis, new axis, shrink), what numpy does
    ((0, 1, 0), (0, 0, 0), (1, 1, 2), (5, 7, 0, 0, 0), np.s_[:, 1:, ::2]),
    ((0, 0), (0, 0), (1, -1), (3, 3, 0, 0, 0), np.s_[:, ::-1]),
    ((0,), (1,), (1,), (252, 252, 0, 0, 1), np.s_[0]),
    ((-1,), (0,), (1,), (0, 0, 0, 0, 1), np.s_[-1]),
    ((0, 1), (0, 2), (1, 1), (0, 0, 1, 0, 2), np.s_[..., 1]),
    ((0, 0, 0, 0), (0, 0, 0, 1), (1, 1, 1, 1), (5, 5, 0, 2, 8), np.s_[:, None, :, 0]),
    ((0, 0, 3), (2, 3, 0), (1, 2, -1), (0, 0, 0, 0, 0), np.s_[:, 0:3:2, 3:0:-1]),
    ((-2, -9), (9, 2), (1, 1), (0, 0, 0, 0, 0), np.s_[-2:9, -9:2]),
    ((1, 2, 3), (-3, -4, -5), (-1, -1, -1), (0, 0, 0, 0, 0), np.s_[1::-1, 2::-1, 3::-1]),
    ((2,), (1,), (1,), (0, 0, 0, 0, 0), np.s_[2:1]),
    ((0, 0, 1), (0, 0, 2), (1, 1, 1), (0, 0, 2, 1, 4), np.s_[None, ..., 1]),
    ((0, 0, 0), (2, 3, 4), (1, 1, 1), (0, 0, 0, 0, 0), np.s_[:, :, :]),
]


@both
@pytest.mark.parametrize(("begin", "end", "strides", "masks", "index"), STRIDED)
def test_strided_slice(
    tmp_path: Path,
    begin: Any,
    end: Any,
    strides: Any,
    masks: Any,
    index: Any,
    dynamic: bool,
) -> None:
    check(tmp_path, "StridedSlice", [X, begin, end, strides, *masks], X[index], dynamic)


def test_strided_slice_of_the_old_grammar(tmp_path: Path) -> None:
    check(
        tmp_path, "StridedSlice", [X, (0, 1), (2, 3), (1, 1)], X[:2, 1:], begin_mask=0, end_mask=2
    )


def test_slice_up_to_a_size_known_at_run_time(tmp_path: Path) -> None:
    y = np.zeros((3, 2), np.float32)
    writer = Writer(dynamic=True)
    size = writer.node("TupleGetItem", [writer.node("Shape", [y], (3, 2)), 1], 2)
    end = writer.node("MakeTuple", [size, 3], (2, 3))
    output = writer.node("StridedSlice", [X, (0, 0), end, (1, 1), 0, 0, 0, 0, 0], X[:2])
    proto = lower_mindir(read_model(str(writer.save(tmp_path / "one.mindir", output, X[:2]))))
    same(run(tmp_path, proto, writer.arrays)[0], X[:2])


@both
@pytest.mark.parametrize("shape", [(-1,), (4, -1), (24,), (2, 12), (1, 2, 1, 12)])
def test_reshape(tmp_path: Path, shape: tuple[int, ...], dynamic: bool) -> None:
    check(tmp_path, "Reshape", [X, shape], X.reshape(shape), dynamic)


@pytest.mark.parametrize(
    ("before", "after"),
    [((0, 3), (3, 0)), ((2, 0), (0, 5)), ((0, 4), (0, 2, 2)), ((0, 3), (0, -1))],
)
def test_reshape_of_nothing(
    tmp_path: Path, before: tuple[int, ...], after: tuple[int, ...]
) -> None:
    x = np.zeros(before, np.float32)
    expected = np.zeros([3 if size < 0 else size for size in after], np.float32)
    check(tmp_path, "Reshape", [x, after], expected)


def test_single_numbers_keep_no_axis(tmp_path: Path) -> None:
    x = np.array(3.0, np.float32)
    check(tmp_path, "Reshape", [x, (1, 1)], x.reshape(1, 1))
    check(tmp_path, "Reshape", [x.reshape(1, 1), ()], x)
    check(tmp_path, "Mul", [np.ones((2, 2), np.float32), Fixed(x)], np.full((2, 2), 3, np.float32))
    check(tmp_path, "Neg", [Fixed(x)], -x)


@both
def test_axes_added_removed_and_moved(tmp_path: Path, dynamic: bool) -> None:
    check(tmp_path, "ExpandDims", [X, -1], X[..., None], dynamic)
    check(tmp_path, "Squeeze", [X[:, :1], (1,)], X[:, 0], dynamic)
    check(tmp_path, "Squeeze", [X[:1, :1], ()], X[0, 0], dynamic=False)
    check(tmp_path, "Transpose", [X, (2, 0, -2)], X.transpose(2, 0, 1), dynamic)
    check(tmp_path, "TransposeExtView", [X, -1, 0], X.swapaxes(0, 2), dynamic)
    check(tmp_path, "Flatten", [X], X.reshape(2, 12), dynamic)
    check(tmp_path, "FlattenExt", [X, 0, 1], X.reshape(6, 4), dynamic)
    check(tmp_path, "FlattenExt", [X, 1, -1], X.reshape(2, 12), dynamic)


@both
def test_repetition(tmp_path: Path, dynamic: bool) -> None:
    check(
        tmp_path,
        "BroadcastTo",
        [X[:, :1], (5, -1, 3, 4)],
        np.broadcast_to(X[:, :1], (5, 2, 3, 4)),
        dynamic,
    )
    check(tmp_path, "Tile", [X, (2,)], np.tile(X, 2), dynamic)
    check(tmp_path, "Tile", [X, (2, 1, 1, 3)], np.tile(X, (2, 1, 1, 3)), dynamic)
    check(tmp_path, "RepeatInterleaveInt", [X, 3, 1, None], X.repeat(3, 1), dynamic)
    check(tmp_path, "RepeatInterleaveInt", [X, 2, None, None], X.repeat(2), dynamic)


@both
def test_joining_and_cutting(tmp_path: Path, dynamic: bool) -> None:
    check(tmp_path, "Concat", [[X, X + 1], -1], np.concatenate([X, X + 1], -1), dynamic)
    check(tmp_path, "Stack", [[X, X + 1]], np.stack([X, X + 1], 1), dynamic, axis=1)
    check(tmp_path, "StackExt", [[X, X], -1], np.stack([X, X], -1), dynamic)
    check(tmp_path, "Split", [X, 2, 2], tuple(np.split(X, 2, 2)), dynamic)
    check(tmp_path, "Split", [X, 1, 1], (X,), dynamic)
    check(tmp_path, "SplitWithSize", [X, (1, 3), -1], tuple(np.split(X, [1], 2)), dynamic)
    check(tmp_path, "ChunkView", [X, 2, 1], (X[:, :2], X[:, 2:]), dynamic)
    check(tmp_path, "Unstack", [X], tuple(X.transpose(1, 0, 2)), dynamic, axis=1, num=3)


def test_chunks_are_fewer_where_the_axis_is_short(tmp_path: Path) -> None:
    x = np.arange(9, dtype=np.float32)
    check(tmp_path, "ChunkView", [x, 4, 0], (x[:3], x[3:6], x[6:]))
    check(tmp_path, "SplitTensorView", [x, 4, 0], (x[:4], x[4:8], x[8:]))


@both
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather(tmp_path: Path, axis: int, dynamic: bool) -> None:
    ids = np.array([[1, 0], [0, 1]], np.int32)
    check(tmp_path, "Gather", [X, ids, axis, 0], X.take(ids, axis), dynamic)
    check(tmp_path, "Gather", [X, np.array(1, np.int64), axis, 0], X.take(1, axis), dynamic)


@both
def test_gather_in_batches(tmp_path: Path, dynamic: bool) -> None:
    ids = np.array([[2, 0, 1, 1], [1, 1, 0, 2]], np.int32)
    check(tmp_path, "Gather", [X, ids, 1, 1], np.stack([X[i][ids[i]] for i in range(2)]), dynamic)
    check(
        tmp_path, "Gather", [X, ids, 2, 1], np.stack([X[i][:, ids[i]] for i in range(2)]), dynamic
    )
    check(
        tmp_path,
        "Gather",
        [X, ids[:, :3], -1, 2],
        np.take_along_axis(X, ids[:, :3, None], 2)[..., 0],
        dynamic,
    )


@both
def test_elements_and_rows_by_index(tmp_path: Path, dynamic: bool) -> None:
    ids = (X.astype(np.int64) * 7) % 3
    check(tmp_path, "GatherD", [X, 1, ids], np.take_along_axis(X, ids, 1), dynamic)
    pairs = np.array([[0, 2], [1, 0]], np.int32)
    check(tmp_path, "GatherNd", [X, pairs], X[pairs[:, 0], pairs[:, 1]], dynamic)
    check(tmp_path, "SelectExtView", [X, 1, -1], X[:, -1], dynamic)
    check(tmp_path, "NarrowView", [X, 2, 1, 2], X[:, :, 1:3], dynamic)
    check(tmp_path, "Slice", [X, (0, 1, 1), (2, -1, 2)], X[:, 1:, 1:3], dynamic)
    check(tmp_path, "Embedding", [pairs, X[0], None, None, 2.0, False], X[0][pairs], dynamic)


@both
def test_reversing_and_rolling(tmp_path: Path, dynamic: bool) -> None:
    check(tmp_path, "ReverseV2", [X, (0, -1)], X[::-1, :, ::-1], dynamic)
    check(tmp_path, "Roll", [X, (1, -1), (1, 2)], np.roll(X, (1, -1), (1, 2)), dynamic)
    check(tmp_path, "Roll", [X, 5, None], np.roll(X, 5), dynamic)
    check(tmp_path, "Roll", [X, 0, 0], X, dynamic)


def test_scattering(tmp_path: Path) -> None:
    table, rows = np.zeros((4, 2), np.float32), np.array([[1], [3], [1]], np.int32)
    new = np.arange(6, dtype=np.float32).reshape(3, 2)
    added = table.copy()
    np.add.at(added, rows[:, 0], new)
    check(tmp_path, "ScatterNd", [rows, new, (4, 2)], added)
    check(tmp_path, "TensorScatterSub", [table, rows, new], -added)
    replaced = np.array([[0, 0], [0, 1], [0, 0], [2, 3]], np.float32)
    check(tmp_path, "TensorScatterUpdate", [table, rows[:2], new[:2]], replaced)


def test_scattering_by_element(tmp_path: Path) -> None:
    x, ids, new = X[0], np.array([[0, 2], [1, 1]]), np.array([[8, 9], [6, 7]], np.float32)
    replaced, added = x.copy(), x.copy()
    np.put_along_axis(replaced[:2], ids[:, :1], new[:, :1], 1)
    for row in range(2):
        np.add.at(added[row], ids[row], new[row])
    check(tmp_path, "TensorScatterElements", [x, ids[:, :1], new[:, :1], 1, 0], replaced)
    check(tmp_path, "Scatter", [x, 1, ids, new, 1], added)
    check(tmp_path, "ScatterAddExt", [x, 1, ids, new], added)


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot_is_off_for_an_index_out_of_range(tmp_path: Path, axis: int) -> None:
    ids = np.array([[0, 4, -1], [5, 2, 1]], np.int32)
    hit = np.moveaxis(ids[..., None] == np.arange(5), -1, axis)
    on, off = Fixed(np.array(2, np.float32)), Fixed(np.array(-1, np.float32))
    check(
        tmp_path,
        "OneHot",
        [ids, 5, on, off, axis],
        np.where(hit, np.float32(2), np.float32(-1)),
        dynamic=True,
    )


@both
def test_made_tensors(tmp_path: Path, dynamic: bool) -> None:
    check(tmp_path, "Zeros", [(2, 3), 43], np.zeros((2, 3), np.float32))
    check(tmp_path, "FillScalar", [(2, 2), 1.5, None], np.full((2, 2), 1.5, np.float32))
    check(tmp_path, "OnesLikeExt", [X, 34], np.ones(X.shape, np.int32), dynamic)
    check(tmp_path, "Eye", [3, 4, 35], np.eye(3, 4, dtype=np.int64))
    check(tmp_path, "Range", [1, 8, 3, 1000000], np.arange(1, 8, 3))
    check(tmp_path, "LinSpace", [0.0, 1.0, 5], np.linspace(0, 1, 5, dtype=np.float32))
    check(tmp_path, "Diag", [X[0, 0]], np.diag(X[0, 0]), dynamic)
    check(tmp_path, "Triu", [X.astype(np.int8), 1], np.triu(X.astype(np.int8), 1), dynamic)
    check(tmp_path, "Tril", [X], np.tril(X, -1), dynamic, diagonal=-1)
    a, c = X[0, 0], X[0, :, 0]
    check(tmp_path, "Meshgrid", [[a, c], 1], tuple(np.meshgrid(a, c)), dynamic)
    check(tmp_path, "Meshgrid", [[a, c], 0], tuple(np.meshgrid(a, c, indexing="ij")), dynamic)


def test_arithmetic_on_dimensions(tmp_path: Path) -> None:
    writer = Writer(dynamic=True)
    shape = writer.node("Shape", [X], (2, 3, 4))
    first, second = (writer.node("TupleGetItem", [shape, i], 2) for i in range(2))
    product = writer.node("ScalarMul", [first, second], 6)
    rest = writer.node("ScalarFloorDiv", [writer.node("ScalarAdd", [product, 2], 8), 2], 4)
    target = writer.node("MakeTuple", [product, rest], (6, 4))
    output = writer.node(
        "MakeTuple", [writer.node("Reshape", ["g:x0", target], X.reshape(6, 4)), product], None
    )
    proto = lower_mindir(
        read_model(str(writer.save(tmp_path / "one.mindir", output, (X.reshape(6, 4), 6))))
    )
    reshaped, six = run(tmp_path, proto, writer.arrays)
    same(reshaped, X.reshape(6, 4))
    same(six, np.array(6))


def test_unsupported_and_impossible_nodes_are_named(tmp_path: Path) -> None:
    with pytest.raises(
        ModelError,
        match=r"node Default/Transpose \(Transpose\): the order of axes must be constant",
    ):
        check(tmp_path, "Transpose", [X, np.array([0, 2, 1])], X)
    with pytest.raises(
        ModelError, match=r"1 primitives are not supported:\n  NoSuchOperator \(1\): Default/NoSuch"
    ):
        check(tmp_path, "NoSuchOperator", [X], X)
    with pytest.raises(ModelError, match="neither an input nor an attribute 'shape'"):
        check(tmp_path, "Reshape", [X], X)
    with pytest.raises(ModelError, match=r"the length of the range is .*, expected 0 to"):
        check(tmp_path, "Range", [0, 1 << 60, 1], X)
