"""Primitives that today's MindSpore takes apart or renames before it exports, and that older files
hold.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from primitives import TOLERANCE, Writer, check

from rankmesh.compiler.lowering.lower_mindir import lower_mindir
from rankmesh.compiler.mindir.reader import read_model

RNG = np.random.default_rng(5)
X, Y = (RNG.uniform(-2, 2, (2, 3)) for _ in range(2))
ROOT = np.sqrt(2)
FAST_GELU = X / (1 + np.exp(-1.702 * np.abs(X))) * np.exp(0.851 * (X - np.abs(X)))
ERF = np.array([[-0.9, -0.2, 0.0], [0.1, 0.5, 1.3]])  # and erf(x / sqrt(2)) of these, from a table
ERF_VALUES = np.array([[-0.631879937, -0.158519419, 0.0], [0.079655674, 0.382924923, 0.806398914]])
FLOATS: list[tuple[str, list[Any], np.ndarray]] = [
    ("FastGelu", [X], FAST_GELU),
    ("TensorAdd", [X, Y], X + Y),
    ("StopGradient", [X], X),
    ("View", [X, (3, 2)], X.reshape(3, 2)),
    ("NpuGelu", [ERF, 0], ERF / 2 * (1 + ERF_VALUES)),
    ("Vdot", [X[0], Y[0]], np.array(X[0] @ Y[0])),
]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", sorted(TOLERANCE))
@pytest.mark.parametrize(("primitive", "arguments", "expected"), FLOATS)
def test_floats(
    tmp_path: Path,
    primitive: str,
    arguments: list[Any],
    expected: np.ndarray,
    dtype: str,
    dynamic: bool,
) -> None:
    given = [value.astype(dtype) if isinstance(value, np.ndarray) else value for value in arguments]
    check(tmp_path, primitive, given, expected.astype(dtype), dynamic)


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "int8", "int32", "int64", "bool"]
)
def test_items_of_every_dtype(tmp_path: Path, dtype: str) -> None:
    x, y = (
        (np.arange(6).reshape(2, 3) % 4).astype(dtype),
        (np.arange(6).reshape(2, 3) % 3).astype(dtype),
    )
    check(tmp_path, "Pack", [[x, y]], np.stack([x, y], 1), axis=1)
    check(tmp_path, "Pack", [[x, y]], np.stack([x, y]), dynamic=True)
    check(tmp_path, "Unpack", [x], tuple(x.T.copy()), axis=1)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int64", "bool"])
def test_squares_of_pixels_come_channel_by_channel(
    tmp_path: Path, dtype: str, dynamic: bool
) -> None:
    x = (np.arange(48) * 7 % 11 % 4).astype(dtype).reshape(1, 8, 2, 3)
    wanted = x.reshape(1, 2, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(1, 2, 4, 6)
    check(tmp_path, "PixelShuffle", [x, 2], wanted, dynamic)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", ["bool", "int32", "float32"])
def test_whether_any_element_is_true(tmp_path: Path, dtype: str, dynamic: bool) -> None:
    x = np.array([[0, 0, 0], [0, 2, 0]]).astype(dtype)
    check(tmp_path, "Any", [x], np.array(True), dynamic)
    check(tmp_path, "AnyExt", [x, 1, True], np.array([[False], [True]]), dynamic)
    check(tmp_path, "AnyExt", [x, 0, False], np.array([False, True, False]), dynamic)


def test_numbers(tmp_path: Path) -> None:
    for value in (False, True):
        check(tmp_path, "bool_not", [np.array(value)], np.array(not value))
    for array in (np.array(1.0), np.zeros((2, 1, 3))):
        writer, wanted = Writer(), np.array(array.ndim, np.int64)
        rank = writer.node("Rank", [array], None)
        output = writer.node("ScalarToTensor", [rank, 35], wanted)
        proto = lower_mindir(read_model(str(writer.save(tmp_path / "one.mindir", output, wanted))))
        assert [
            np.frombuffer(item.raw_data, np.int64).tolist() for item in proto.graph.initializer
        ] == [[array.ndim]]


def convolved(x: np.ndarray, w: np.ndarray, same: bool) -> np.ndarray:
    """The convolution; for `same`, the larger half of the padding comes behind, as torch has it."""
    kernel = w.shape[2:]
    if same:
        x = np.pad(x, [(0, 0), (0, 0), *(((k - 1) // 2, k // 2) for k in kernel)])
    axes = tuple(range(2, x.ndim))
    windows = np.lib.stride_tricks.sliding_window_view(x, kernel, axes)
    summed = (1, *(axis + len(kernel) for axis in axes))
    return np.moveaxis(np.tensordot(windows, w, (summed, tuple(range(1, w.ndim)))), -1, 1)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize(
    ("primitive", "sizes", "kernel"),
    [
        ("Conv1DPadding", (7,), (4,)),
        ("Conv2DPadding", (5, 6), (2, 3)),
        ("Conv3DPadding", (3, 4, 3), (2, 3, 2)),
    ],
)
def test_padding_by_name(
    tmp_path: Path,
    primitive: str,
    sizes: tuple[int, ...],
    kernel: tuple[int, ...],
    dtype: str,
    dynamic: bool,
) -> None:
    x, w = RNG.uniform(-1, 1, (1, 2, *sizes)), RNG.uniform(-1, 1, (3, 2, *kernel))
    bias = RNG.uniform(-1, 1, 3)
    x, w, bias = (value.astype(dtype) for value in (x, w, bias))
    for mode, same in ((1, True), (2, False)):
        plain = convolved(x.astype(np.float64), w.astype(np.float64), same)
        wanted = plain + bias.reshape(-1, *[1] * len(sizes))
        check(tmp_path, primitive, [x, w, None, 1, mode, 1, 1], plain.astype(dtype), dynamic)
        check(tmp_path, primitive, [x, w, bias, 1, mode, 1, 1], wanted.astype(dtype), dynamic)


@pytest.mark.pure
def test_neighbours(tmp_path: Path) -> None:
    x, wanted = (
        np.zeros((2, 3), np.float32),
        (np.zeros((4, 2), np.float16), np.zeros(5, np.float16)),
    )
    writer = Writer()
    output = writer.node(
        "NeighborExchange",
        [[x, x]],
        wanted,
        {
            "group": "g",
            "send_rank_ids": (1, 2),
            "recv_rank_ids": (2, 1),
            "send_shapes": ((2, 3), (2, 3)),
            "recv_shapes": ((4, 2), (5,)),
            "recv_type": np.dtype(np.float16),
        },
    )
    proto = lower_mindir(read_model(str(writer.save(tmp_path / "one.mindir", output, wanted))))
    node = next(node for node in proto.graph.node if node.op_type == "NeighborExchange")
    attributes = {attribute.name: attribute for attribute in node.attribute}
    assert [list(attributes[name].ints) for name in ("sends_to", "receives_from")] == [
        [1, 2],
        [2, 1],
    ]
    assert (len(node.input), len(node.output), attributes["group"].s) == (2, 2, b"g")
    types = {
        info.name: info.type.tensor_type for info in (*proto.graph.value_info, *proto.graph.output)
    }
    found = [types[name] for name in node.output]
    assert [[dim.dim_value for dim in kind.shape.dim] for kind in found] == [[4, 2], [5]]
    assert {kind.elem_type for kind in found} == {10}  # float16
