"""The models of serving_peers.py: an ONNX file, one input and onnxruntime's output for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
SEED = 7
SMALL, LARGE = 1024, 4 * 1024 * 1024
"""Elements of the echo models: 4 KB and 16 MB of float32."""


def write(folder: Path) -> None:
    """NAME.onnx with input `x` and output `y`, and NAME.npz with values of both: the echo models
    `small` and `large`, and `mobilenetv2` with random weights.
    """
    for name, size in (("small", SMALL), ("large", LARGE)):
        _write_echo(folder / f"{name}.onnx", size)
        array = np.random.default_rng(SEED).standard_normal(size, np.float32)
        np.savez(folder / f"{name}.npz", x=array, y=array)
    model = folder / "mobilenetv2.onnx"
    _write_mobilenet(model)
    image = np.random.default_rng(SEED).standard_normal((1, 3, 224, 224), np.float32)
    np.savez(folder / "mobilenetv2.npz", x=image, y=_answer(model, image))


def _write_echo(path: Path, size: int) -> None:
    from onnx import TensorProto, helper, save

    slots = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [size]) for name in ("x", "y")]
    identity = helper.make_node("Identity", ["x"], ["y"])
    graph = helper.make_graph([identity], path.stem, slots[:1], slots[1:])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), path)


def _write_mobilenet(path: Path) -> None:
    import torch
    from twins.convolutions import MobileNetV2

    torch.manual_seed(SEED)
    network = MobileNetV2().eval()
    for module in network.modules():
        if isinstance(module, torch.nn.Conv2d):
            torch.nn.init.kaiming_normal_(module.weight, mode="fan_out")
    image = torch.zeros(1, 3, 224, 224)
    names = {"input_names": ["x"], "output_names": ["y"]}
    torch.onnx.export(network, (image,), str(path), dynamo=False, opset_version=17, **names)


def _answer(model: Path, image: Array) -> Array:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"x": image})
    return np.asarray(found)
