"""Writes the shards of a transformer block, and a case that the whole block has computed.

Both of torch's exporters write them; the one that is called dynamo needs onnxscript.
"""

from __future__ import annotations

import warnings
from importlib.util import find_spec

import numpy as np
import torch
from block import WIDTH, Block, shard

from rankmesh.torch import Group

RANKS = 2


def export(block: Block, x: torch.Tensor, path: str, exporter: str) -> None:
    """One file, for any batch and length."""
    names = {"input_names": ["x"], "output_names": ["y"]}
    if exporter == "dynamo":
        shapes = ({0: "batch", 1: "length"},)
        torch.onnx.export(
            block, (x,), path, dynamo=True, dynamic_shapes=shapes, verbose=False, **names
        )
    else:
        axes = {name: {0: "batch", 1: "length"} for name in ("x", "y")}
        torch.onnx.export(block, (x,), path, dynamo=False, dynamic_axes=axes, **names)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # torch deprecates the TorchScript exporter
    torch.manual_seed(0)
    whole = Block(Group(size=1)).eval()
    for exporter in ("torchscript", *(["dynamo"] if find_spec("onnxscript") else [])):
        for rank in range(RANKS):
            block = shard(whole, Group(size=RANKS, position=rank))
            export(block, torch.randn(2, 5, WIDTH), f"{exporter}_rank{rank}.onnx", exporter)
    x = torch.randn(3, 7, WIDTH)
    np.savez("case.npz", x=x.numpy(), y=whole(x).detach().numpy())
