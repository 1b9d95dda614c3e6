"""A torch twin of a MindIR's network, with the MindIR's own weights, exported to ONNX.

    cd bench; python -m twins.export NAME MODEL.mindir INPUTS.npz TWIN.onnx

The exporter is torch's own (`dynamo=False`): the newer one needs onnxscript as well.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from .convolutions import MobileNetV2, ResNet50
from .text import Bert, Gpt2
from .unet import UNet
from .vision import Swin, Vit

OPSET = 20  # the newest of this exporter
TWINS: dict[str, Callable[[], nn.Module]] = {
    "resnet50": ResNet50,
    "mobilenetv2": MobileNetV2,
    "bert": Bert,
    "gpt2": Gpt2,
    "vit": Vit,
    "swin": Swin,
    "unet": UNet,
}
_NAMES = {
    "gamma": "weight",
    "beta": "bias",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
    "embedding_table": "weight",
}
# MindSpore names the cells of a list of lists by the first of them: Swin's stages are 0,
# 0.blocks.1, 0.blocks.2, ...
_STAGE = re.compile(r"^0\.(?:blocks\.(\d)\.(?=blocks|downsample))?")


def weights(path: str) -> dict[str, torch.Tensor]:
    """The parameters of a MindIR under the names that torch gives them."""
    from rankmesh.compiler.mindir.reader import read_model

    found = {}
    for weight in read_model(path).weights.values():
        stem, dot, last = weight.name.rpartition(".")
        stem = _STAGE.sub(lambda found: f"layers.{found[1] or 0}.", stem)
        found[stem + dot + _NAMES.get(last, last)] = torch.from_numpy(weight.array().copy())
    return found


def twin(name: str, path: str) -> nn.Module:
    """The network NAME with the weights of the MindIR at `path`, all of them and no others."""
    network = TWINS[name]()
    missing, left = network.load_state_dict(weights(path), strict=False)
    missing = [key for key in missing if not key.endswith("num_batches_tracked")]
    if missing or left:
        sys.exit(
            f"{path}: is not the network {name} of bench/twins: it lacks {missing[:4]} and has "
            f"{left[:4]} more. "
            f"Write it again with tests/oracle/bench_models.py."
        )
    return network.eval()


def main() -> None:
    name, path, inputs, target = sys.argv[1:]
    arrays = np.load(inputs)
    given = tuple(torch.from_numpy(arrays[key]) for key in arrays.files if key.startswith("in_"))
    outputs = [key for key in arrays.files if key.startswith("out_")]
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            twin(name, path),
            given,
            target,
            dynamo=False,
            opset_version=OPSET,
            output_names=outputs,
            input_names=[f"in_{i}" for i in range(len(given))],
        )


if __name__ == "__main__":
    main()
