"""Normalisation and LSTM against their definitions in numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from primitives import Writer, check, run, same

from rankmesh.compiler.lowering.lower_mindir import lower_mindir
from rankmesh.compiler.mindir.reader import read_model

RNG = np.random.default_rng(3)
both = pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@both
def test_normalisation_over_the_last_axes(tmp_path: Path, dynamic: bool) -> None:
    x, scale, shift = normal(2, 3, 4), normal(4), normal(4)
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    expected = (x - mean) / np.sqrt(variance + 1e-5) * scale + shift
    check(
        tmp_path, "LayerNorm", [x, scale, shift, -1, -1, 1e-5], (expected, mean, variance), dynamic
    )
    check(
        tmp_path,
        "LayerNormExt",
        [x, (4,), scale, shift, 1e-5],
        (expected, mean, (1 / np.sqrt(variance + 1e-5)).astype(np.float32)),
        dynamic,
    )
    whole = (x - x.mean((1, 2), keepdims=True)) / np.sqrt(x.var((1, 2), keepdims=True) + 1e-5)
    check(
        tmp_path,
        "LayerNormExt",
        [x, (3, 4), None, None, 1e-5],
        (
            whole,
            x.mean((1, 2), keepdims=True),
            1 / np.sqrt(x.var((1, 2), keepdims=True) + np.float32(1e-5)),
        ),
    )


def test_normalisation_and_parameters_over_other_axes(tmp_path: Path) -> None:
    x, scale, shift = normal(2, 3, 4), normal(4), normal(4)
    mean, variance = x.mean((1, 2), keepdims=True), x.var((1, 2), keepdims=True)
    expected = (x - mean) / np.sqrt(variance + 1e-5) * scale + shift
    check(tmp_path, "LayerNorm", [x, scale, shift, 1, -1, 1e-5], (expected, mean, variance))


@both
@pytest.mark.parametrize("shape", [(2, 6, 5), (2, 6, 3, 4)])
def test_normalisation_of_groups(tmp_path: Path, shape: tuple[int, ...], dynamic: bool) -> None:
    x, scale, shift = normal(*shape), normal(6), normal(6)
    groups = x.reshape(2, 3, -1)
    mean, variance = groups.mean(-1, keepdims=True), groups.var(-1, keepdims=True)
    side = (6, *(1,) * (len(shape) - 2))
    expected = ((groups - mean) / np.sqrt(variance + 1e-5)).reshape(shape) * scale.reshape(
        side
    ) + shift.reshape(side)
    check(
        tmp_path,
        "GroupNorm",
        [x, 3, scale, shift, 1e-5],
        (expected, mean[..., 0], (1 / np.sqrt(variance + 1e-5))[..., 0].astype(np.float32)),
        dynamic,
    )


def test_seldom_wanted_results_cost_nothing(tmp_path: Path) -> None:
    x, scale = normal(2, 3, 4), normal(4)
    writer = Writer()
    y = writer.node("LayerNorm", [x, scale, scale, -1, -1, 1e-5], (x, x[..., :1], x[..., :1]))
    output = writer.node("TupleGetItem", [y, 0], x)
    proto = lower_mindir(read_model(str(writer.save(tmp_path / "one.mindir", output, x))))
    assert [node.op_type for node in proto.graph.node] == ["LayerNormalization", "Identity"]


@both
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 4, 5)])
@pytest.mark.parametrize("training", [False, True])
def test_batch_normalisation(
    tmp_path: Path, training: bool, shape: tuple[int, ...], dynamic: bool
) -> None:
    x, scale, shift, mean = normal(*shape), normal(3), normal(3), normal(3)
    variance, axes = normal(3) ** 2, (0, *range(2, len(shape)))
    if training:
        mean, variance = x.mean(axes), x.var(axes)
    side = (3, *(1,) * (len(shape) - 2))
    whitened = (x - mean.reshape(side)) / np.sqrt(variance.reshape(side) + 1e-5)
    expected = whitened * scale.reshape(side) + shift.reshape(side)
    check(
        tmp_path,
        "BatchNorm",
        [x, scale, shift, mean, variance, training, 1e-5, 0.1, 0],
        (expected, mean, variance, mean, variance),
        dynamic,
    )


def test_root_mean_square(tmp_path: Path) -> None:
    x, scale = normal(2, 3, 4), normal(4)
    root = np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(1e-6))
    check(tmp_path, "RmsNorm", [x, scale, 1e-6], (x / root * scale, 1 / root), dynamic=True)


@pytest.mark.parametrize("bias", [True, False])
def test_lstm_cell_by_cell(tmp_path: Path, bias: bool) -> None:
    steps, batch, width, hidden = 3, 2, 5, 4
    x, h, c = normal(steps, batch, width), normal(1, batch, hidden), normal(1, batch, hidden)
    w, r, both_biases = normal(4 * hidden, width), normal(4 * hidden, hidden), normal(4 * hidden)
    flat = np.concatenate([w.ravel(), r.ravel(), *([both_biases] if bias else [])]).reshape(
        -1, 1, 1
    )
    outputs, state, cell = [], h[0], c[0]
    for step in range(steps):
        gates = x[step] @ w.T + state @ r.T + (both_biases if bias else 0)
        i, f, g, o = np.split(gates, 4, 1)
        cell = cell / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        state = np.tanh(cell) / (1 + np.exp(-o))
        outputs.append(state)
    writer = Writer()
    y = np.stack(outputs).astype(np.float32)
    every = writer.node(
        "LSTM",
        [x, h, c, flat],
        (y, h, c, h, h),
        {
            "input_size": width,
            "hidden_size": hidden,
            "num_layers": 1,
            "has_bias": bias,
            "bidirectional": False,
        },
    )
    items = [writer.node("TupleGetItem", [every, n], kind) for n, kind in enumerate((y, h, c))]
    output = writer.node("MakeTuple", items, None)
    proto = lower_mindir(read_model(str(writer.save(tmp_path / "one.mindir", output, (y, h, c)))))
    for got, expected in zip(
        run(tmp_path, proto, writer.arrays), (y, state[None], cell[None]), strict=True
    ):
        same(got, expected.astype(np.float32))
