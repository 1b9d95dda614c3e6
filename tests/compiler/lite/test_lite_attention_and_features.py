"""Attention, features of texts and arrays of tensors in .ms files, against numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from lite_models import LiteModel, ran, run_model

from rankmesh.comm.errors import ModelError
from rankmesh.compiler.lite.lite_file import read_lite

F32, I32 = np.float32, np.int32
R = np.random.default_rng(11)
BATCH, LENGTH, OTHERS, HEADS, SIZE = 2, 3, 5, 4, 2
WIDTH = HEADS * SIZE


def floats(*shape: int) -> np.ndarray:
    return R.normal(size=shape).astype(F32)


X, MEMORY = floats(BATCH, LENGTH, WIDTH), floats(BATCH, OTHERS, WIDTH)
WEIGHTS = [floats(WIDTH, WIDTH) for _ in range(4)]
BIASES = [floats(WIDTH) for _ in range(4)]
MASK = R.integers(0, 2, (BATCH, LENGTH, LENGTH)).astype(F32)
JOINED = [np.concatenate(WEIGHTS[:3], 1), WEIGHTS[3], np.concatenate(BIASES[:3]), BIASES[3]]
CROSSED = [WEIGHTS[0], np.concatenate(WEIGHTS[1:3], 1), *JOINED[1:]]


def attended(x, memory, mask=None, scale=SIZE**-0.5):
    """(attention, keys, values) as the definition of attention of several heads says."""
    q, k, v = (
        (given @ weight + bias).reshape(*given.shape[:2], HEADS, SIZE).transpose(0, 2, 1, 3)
        for given, weight, bias in zip((x, memory, memory), WEIGHTS, BIASES, strict=False)
    )
    scores = q @ k.transpose(0, 1, 3, 2) * scale
    scores = scores if mask is None else scores + (1 - mask[:, None]) * -10000
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    y = (shares / shares.sum(-1, keepdims=True)) @ v
    y = y.transpose(0, 2, 1, 3).reshape(*x.shape[:2], WIDTH)
    return y @ WEIGHTS[3] + BIASES[3], k.transpose(0, 1, 3, 2), v


@pytest.mark.parametrize(
    ("inputs", "constants", "fields", "expected"),
    [
        ([X, X, X], [*WEIGHTS, *BIASES], {}, attended(X, X)),
        ([X, X, X], [*WEIGHTS, *BIASES, MASK], {"scale": 0.3}, attended(X, X, MASK, 0.3)),
        ([X, X, X], JOINED, {}, attended(X, X)),
        ([X, X, X], [*JOINED, MASK], {}, attended(X, X, MASK)),
        ([X, MEMORY, MEMORY], CROSSED, {"cross": True}, attended(X, MEMORY)),
        ([X[0]] * 3, JOINED, {}, [attended(X[:1], X[:1])[0][0], *attended(X[:1], X[:1])[1:]]),
    ],
    ids=["one by one", "masked", "joined", "joined and masked", "cross", "one sequence"],
)
def test_attention(tmp_path: Path, inputs, constants, fields, expected) -> None:
    attributes = {"head_num": HEADS, "head_size": SIZE, **fields}
    outputs = [(F32, one.shape) for one in expected]
    found = ran(tmp_path, "Attention", inputs, constants, attributes, outputs)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_attention_of_other_inputs_is_refused(tmp_path: Path) -> None:
    attributes = {"head_num": HEADS, "head_size": SIZE}
    with pytest.raises(ModelError, match="attention has 2 inputs behind queries, keys and values"):
        ran(tmp_path, "Attention", [X, X, X], JOINED[:2], attributes)


SEEDS = np.asarray([[0.123, 0.456], [-0.321, 1.234], [5.678, -4.321]], F32)
FEATURES = np.asarray([12345, 54321, 67890, 9876, -12345678], I32)


@pytest.mark.parametrize(
    ("kind", "weights", "expected"),
    [("DENSE", [np.ones(5, F32)], [0, 0, 0, 1, 0, 0]), ("SPARSE", [], [0, 5, 8])],
)
def test_lsh_projection(tmp_path: Path, kind: str, weights: list, expected: list[int]) -> None:
    """The numbers that MindSpore Lite's own test of this primitive expects."""
    model = LiteModel()
    seeds, given = model.constant(SEEDS), model.input(FEATURES)
    result = model.value(I32, [len(expected)])
    more = [model.constant(one) for one in weights]
    model.node("LshProjection", [seeds, given, *more], [result], {"type": kind})
    model.outputs = [result]
    (tmp_path / "m.ms").write_bytes(model.content())
    (found,) = run_model(read_lite(str(tmp_path / "m.ms")), [FEATURES])
    np.testing.assert_array_equal(found, np.asarray(expected, I32))


def test_predicted_labels(tmp_path: Path) -> None:
    features = np.asarray([7, 3, 7, 1000], I32)  # 1000 is no key
    keys, labels = np.asarray([3, 5, 7], I32), np.asarray([[10, 20], [30, 10], [20, 40]], I32)
    weights = np.asarray([[0.4, 0.8], [9, 9], [0.6, 0.05]], F32)
    attributes = {"output_num": 4, "weight_threshold": 0.1}
    outputs = [(I32, [4]), (F32, [4])]
    constants = [keys, labels, weights]
    named, found = ran(tmp_path, "CustomPredict", [features], constants, attributes, outputs)
    # 20: (0.8 + 2 * 0.6) / 4, 10: 0.4 / 4, 40: 2 * 0.05 / 4 is too little
    np.testing.assert_array_equal(named, [20, 10, -1, -1])
    np.testing.assert_allclose(found, [0.5, 0.1, 0, 0], rtol=1e-6)


def arrayed(folder: Path, place: int, shape: list[int]) -> list[np.ndarray]:
    """Two elements of an array of three, of which one was written; float32 is type 43."""
    model = LiteModel()
    size, given = model.constant(I32(3)), model.input(X[0])
    handle, states = model.value(F32), [model.value(F32) for _ in range(2)]
    results = [model.value(F32, X[0].shape) for _ in range(2)]
    fields = {"element_shape": shape, "data_type": 43}
    model.node("TensorArray", [size], [handle, states[0]], fields)
    places = [model.constant(I32(place)), model.constant(I32(0))]
    model.node("TensorArrayWrite", [handle, places[0], given, states[0]], [states[1]])
    for at, result in zip(places, results, strict=True):
        model.node("TensorArrayRead", [handle, at, states[1]], [result])
    model.outputs = results
    (folder / "m.ms").write_bytes(model.content())
    return run_model(read_lite(str(folder / "m.ms")), [X[0]])


def test_an_array_of_tensors(tmp_path: Path) -> None:
    written, other = arrayed(tmp_path, 2, [LENGTH, WIDTH])
    np.testing.assert_array_equal(written, X[0])
    np.testing.assert_array_equal(other, np.zeros_like(X[0]))


@pytest.mark.parametrize(
    ("place", "shape", "words"),
    [(3, [LENGTH, WIDTH], "place 3 is not in the array"), (1, [-1, WIDTH], "has to be known")],
)
def test_arrays_of_tensors_are_checked(
    tmp_path: Path, place: int, shape: list[int], words: str
) -> None:
    with pytest.raises(ModelError, match=words):
        arrayed(tmp_path, place, shape)
