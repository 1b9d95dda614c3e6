"""Convolution and pooling against plain windows in numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from primitives import Parameter, Writer, check, lowered, run, same

from rankmesh.comm.errors import ModelError
from rankmesh.compiler.lowering.lower_mindir import lower_mindir
from rankmesh.compiler.mindir.reader import read_model

RNG = np.random.default_rng(3)
Pads: TypeAlias = "list[tuple[int, int]]"
both = pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def same_pads(size: int, kernel: int, stride: int, dilation: int = 1) -> tuple[int, int]:
    """TensorFlow's rule: the larger half at the end."""
    total = max(0, (-(-size // stride) - 1) * stride + (kernel - 1) * dilation + 1 - size)
    return total // 2, total - total // 2


def windows(
    x: np.ndarray, kernel: int, stride: int, dilation: int, pads: Pads, fill: float
) -> np.ndarray:
    """[batch, channels, rows, columns, kernel, kernel]."""
    x = np.pad(x, [(0, 0), (0, 0), *pads], constant_values=fill)
    reach = (kernel - 1) * dilation + 1
    view = np.lib.stride_tricks.sliding_window_view(x, (reach, reach), (2, 3))
    return view[:, :, ::stride, ::stride, ::dilation, ::dilation]


def convolve(
    x: np.ndarray, w: np.ndarray, stride: int, dilation: int, group: int, pads: Pads
) -> np.ndarray:
    parts = []
    for xs, ws in zip(np.split(x, group, 1), np.split(w, group, 0), strict=True):
        view = windows(xs, w.shape[2], stride, dilation, pads, 0)
        parts.append(np.einsum("nchwij,ocij->nohw", view, ws))
    return np.concatenate(parts, 1).astype(np.float32)


def conv_attributes(
    stride: int, dilation: int, group: int, mode: str, pads: Pads | None
) -> dict[str, Any]:
    flat = tuple(p for pair in pads for p in pair) if pads else (-1,) * 4
    return {
        "kernel_size": (3, 3),
        "stride": (1, 1, stride, stride),
        "dilation": (1, 1, dilation, dilation),
        "group": group,
        "groups": group,
        "pad_mode": mode,
        "pad_list": flat,
        "format": "NCHW",
    }


@pytest.mark.parametrize(
    ("stride", "dilation", "group"), [(1, 1, 1), (2, 1, 1), (1, 2, 2), (3, 1, 4), (2, 2, 1)]
)
@pytest.mark.parametrize("mode", ["same", "VALID", "pad"])
def test_convolution(tmp_path: Path, mode: str, stride: int, dilation: int, group: int) -> None:
    x, w = normal(2, 4, 9, 8), normal(8, 4 // group, 3, 3)
    same_rule = [same_pads(size, 3, stride, dilation) for size in (9, 8)]
    pads = {"same": same_rule, "VALID": [(0, 0)] * 2, "pad": [(1, 0), (2, 3)]}[mode]
    expected = convolve(x, w, stride, dilation, group, pads)
    check(
        tmp_path,
        "Conv2D",
        [x, Parameter(w)],
        expected,
        **conv_attributes(stride, dilation, group, mode, pads),
    )
    if mode == "pad":
        return
    unknown = conv_attributes(stride, dilation, group, mode, None)
    if (stride, dilation) == (2, 2) and mode == "same":
        with pytest.raises(ModelError, match="must be known"):
            check(tmp_path, "Conv2D", [x, Parameter(w)], expected, dynamic=True, **unknown)
    else:
        check(tmp_path, "Conv2D", [x, Parameter(w)], expected, dynamic=True, **unknown)


def test_bias_becomes_part_of_the_convolution(tmp_path: Path) -> None:
    x, w, c = normal(2, 4, 9, 8), normal(8, 4, 3, 3), normal(8)
    bare = convolve(x, w, 1, 1, 1, [(1, 1), (1, 1)])
    writer = Writer()
    conv = writer.node(
        "Conv2D", [x, Parameter(w)], bare, conv_attributes(1, 1, 1, "same", [(1, 1), (1, 1)])
    )
    output = writer.node("BiasAdd", [conv, Parameter(c), 0], bare)
    proto = lower_mindir(read_model(str(writer.save(tmp_path / "one.mindir", output, bare))))
    assert [node.op_type for node in proto.graph.node] == ["Conv", "Identity"]
    same(run(tmp_path, proto, writer.arrays)[0], bare + c[:, None, None])


def test_torch_style_convolution_with_bias(tmp_path: Path) -> None:
    x, w, c = normal(2, 4, 9, 8), normal(8, 2, 3, 3), normal(8)
    expected = convolve(x, w, 2, 1, 2, [(1, 1), (1, 1)]) + c[:, None, None]
    check(tmp_path, "Conv2DExt", [x, w, c, (2,), (1,), (1,), 2], expected, dynamic=True)


def test_transposed_convolution_has_the_size_asked_for(tmp_path: Path) -> None:
    dy, w = normal(1, 2, 3, 3), normal(2, 3, 3, 3)
    expected = np.zeros((1, 3, 9, 9), np.float32)
    for i in range(3):
        for j in range(3):
            expected[:, :, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3] += np.einsum(
                "nc,cokl->nokl", dy[:, :, i, j], w
            )
    expected = expected[:, :, :6, :6]
    attributes = conv_attributes(2, 1, 1, "same", [(0, 1), (0, 1)])
    check(tmp_path, "Conv2DTranspose", [dy, w, (1, 3, 6, 6)], expected, **attributes)


@both
@pytest.mark.parametrize("mode", ["SAME", "valid"])
@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (3, 2), (3, 1)])
def test_pooling(tmp_path: Path, kernel: int, stride: int, mode: str, dynamic: bool) -> None:
    x = normal(2, 3, 9, 8)
    pads = [same_pads(size, kernel, stride) if mode == "SAME" else (0, 0) for size in (9, 8)]
    largest = windows(x, kernel, stride, 1, pads, -np.inf).max((4, 5))
    mean = np.nanmean(windows(x, kernel, stride, 1, pads, np.nan), (4, 5))
    check(
        tmp_path,
        "MaxPool",
        [x],
        largest,
        dynamic,
        kernel_size=(1, 1, kernel, kernel),
        pad_mode=mode,
        strides=(1, 1, stride, stride),
        format="NCHW",
    )
    check(
        tmp_path,
        "AvgPool",
        [x, (kernel,) * 2, (stride,) * 2, {"SAME": 1, "valid": 2}[mode], 0],
        mean,
        dynamic,
    )


def test_average_with_padding_counted(tmp_path: Path) -> None:
    x = normal(1, 2, 6, 6)
    expected = windows(x, 3, 2, 1, [(1, 1), (1, 1)], 0).mean((4, 5))
    check(tmp_path, "AvgPool2D", [x, (3,), (2,), (1,), False, True, None], expected, dynamic=True)
    expected = windows(x, 2, 2, 1, [(0, 0)] * 2, 0).mean((4, 5))
    check(tmp_path, "AvgPool2D", [x, (2,), None, (0,), False, True, None], expected)


def test_where_the_largest_are(tmp_path: Path) -> None:
    x = normal(2, 3, 4, 6)
    planes = x.reshape(6, 4, 6)
    values, places = np.zeros((6, 2, 3), np.float32), np.zeros((6, 2, 3), np.int64)
    for p, plane in enumerate(planes):
        for i in range(2):
            for j in range(3):
                block = plane[2 * i : 2 * i + 2, 2 * j : 2 * j + 2]
                values[p, i, j] = block.max()
                places[p, i, j] = np.flatnonzero(plane.ravel() == block.max())[0]
    expected = values.reshape(2, 3, 2, 3), places.reshape(2, 3, 2, 3)
    check(
        tmp_path,
        "MaxPoolWithArgmaxV2",
        [x],
        expected,
        kernel_size=(1, 1, 2, 2),
        strides=(1, 1, 2, 2),
        pads=(1, 1, 0, 0),
        dilation=(1, 1, 1, 1),
        ceil_mode=False,
    )
    check(tmp_path, "AdaptiveMaxPool2D", [x, (2, 3)], expected)


@pytest.mark.parametrize("sizes", [(1, 1), (2, 3), (3, 5), (None, 2)])
def test_adaptive_average(tmp_path: Path, sizes: tuple[int | None, int]) -> None:
    x = normal(2, 3, 7, 8)
    rows, columns = sizes[0] or 7, sizes[1]
    expected = np.stack(
        [
            np.stack(
                [
                    x[
                        :,
                        :,
                        i * 7 // rows : -(-(i + 1) * 7 // rows),
                        j * 8 // columns : -(-(j + 1) * 8 // columns),
                    ].mean((2, 3))
                    for j in range(columns)
                ],
                -1,
            )
            for i in range(rows)
        ],
        -2,
    )
    check(tmp_path, "AdaptiveAvgPool2D", [x], expected, output_size=sizes, dynamic=sizes == (1, 1))


def test_float64_runs_where_kernels_have_only_float32(tmp_path: Path) -> None:
    x = normal(1, 2, 4, 4).astype(np.float64)
    proto, _ = lowered(
        tmp_path,
        "Conv2D",
        [x, x[:, :, :3, :3].copy()],
        np.zeros((1, 1, 2, 2)),
        **conv_attributes(1, 1, 1, "valid", [(0, 0), (0, 0)]),
    )
    same(
        run(tmp_path, proto, {"x0": x, "x1": x[:, :, :3, :3]})[0],
        convolve(x, x[:, :, :3, :3], 1, 1, 1, [(0, 0), (0, 0)]).astype(np.float64),
    )
