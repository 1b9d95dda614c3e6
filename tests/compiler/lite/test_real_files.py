"""Real .ms files: each node against an evaluation in numpy, and the whole by the command."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from lite_models import results_of_nodes, run_model

import rankmesh as mslite
from rankmesh.compiler.lite.lite_file import read_lite
from rankmesh.compiler.mindir.graph import MindirModel, MindirNode
from rankmesh.compiler.model_file.model_format import format_of

DATA = Path(__file__).parents[2] / "data" / "ms"


def windows(x: np.ndarray, kernel, strides, ceil: bool) -> np.ndarray:
    """[n, h, w, kh, kw, c]: windows of an image whose channels come last."""
    (kh, kw), (sh, sw) = kernel, strides
    if ceil:
        more = [-(size - k) % s for size, k, s in zip(x.shape[1:3], kernel, strides, strict=True)]
        x = np.pad(x, ((0, 0), (0, more[0]), (0, more[1]), (0, 0)), constant_values=-np.inf)
    view = np.lib.stride_tricks.sliding_window_view(x, (kh, kw), axis=(1, 2))
    return np.moveaxis(view[:, ::sh, ::sw], 3, 5)


def conv(x, w, bias=None, *, stride, activation_type, **_):
    y = np.einsum("nhwabc,oabc->nhwo", windows(x, w.shape[1:3], stride, False), w)
    y = y if bias is None else y + bias
    return np.maximum(y, 0) if activation_type == "RELU" else y


def max_pool(x, *, kernel_size, strides, round_mode, **_):
    return windows(x, kernel_size, strides, round_mode == "CEIL").max((3, 4))


def softmax(x, *, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


EVALUATIONS = {
    "Lite.Conv2DFusion": conv,
    "Lite.MaxPoolFusion": max_pool,
    "Lite.Activation": lambda x, **_: np.maximum(x, 0),
    "Lite.Transpose": lambda x, perm: x.transpose(perm),
    "Lite.Reshape": lambda x, shape: x.reshape(shape),
    "Lite.MatMulFusion": lambda x, w, bias, **_: x @ w.T + bias,
    "Lite.FullConnection": lambda x, w, bias, **_: x.reshape(len(x), -1) @ w.T + bias,
    "Softmax": softmax,
}


def evaluated(model: MindirModel, x: np.ndarray) -> dict[str, np.ndarray]:
    """The results of all nodes by numpy; float64, and so without the rounding of another order."""
    values = {key: np.asarray(one) for key, one in model.constants.items()}
    values |= {key: one.array() for key, one in model.weights.items()}
    values[model.entry.inputs[0].key] = x
    for node in model.entry.nodes:
        values[node.key] = one(node, [values[key] for key in node.inputs])
    return values


def one(node: MindirNode, inputs: list[np.ndarray]) -> np.ndarray:
    wide = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in inputs]
    return EVALUATIONS[node.primitive](*wide, **node.attributes)


@pytest.mark.parametrize("name", ["lenet_tod_infer", "ml_face_isface"])
def test_each_node_computes_what_numpy_does(name: str) -> None:
    model = read_lite(str(DATA / f"{name}.ms"))
    kind = model.entry.inputs[0].type
    x = np.random.default_rng(1).normal(size=kind.shape).astype(np.float32)
    expected = evaluated(model, x)
    found = 0
    for node, result in results_of_nodes(model, [x]):
        assert result.shape == expected[node.key].shape
        np.testing.assert_allclose(result, expected[node.key], rtol=1e-4, atol=1e-5)
        found += 1
    assert found == len(model.entry.nodes) >= 13


def test_a_chain_of_images_keeps_the_order_of_onnx() -> None:
    from rankmesh.compiler.lowering.lower_mindir import lower_mindir

    graph = lower_mindir(read_lite(str(DATA / "ml_face_isface.ms"))).graph
    weights = {one.name for one in graph.initializer}
    activations = [
        node for node in graph.node if node.op_type == "Transpose" and node.input[0] not in weights
    ]
    assert len(activations) == 1  # the input's


def test_the_content_decides_whatever_the_name_says(tmp_path: Path) -> None:
    path = tmp_path / "renamed.mindir"
    path.write_bytes((DATA / "lenet_tod_infer.ms").read_bytes())
    assert format_of(str(path)).name == "MindSpore Lite"
    model = mslite.Model()
    model.build_from_file(str(path), mslite.ModelType.MINDIR, mslite.Context())
    (given,) = model.get_inputs()
    assert (given.name, given.shape) == ("inputs0", [2, 32, 32, 1])
    x = np.random.default_rng(0).random(given.shape, np.float32)
    given.set_data_from_numpy(x)
    (result,) = model.predict([given])
    expected = run_model(read_lite(str(path)), [x])[0]
    np.testing.assert_allclose(result.get_data_to_numpy(), expected, rtol=1e-5)
