"""Writes the shards of a transformer block, and a case that the whole block has computed.

Usage: python export.py torchscript|dynamo
"""

from __future__ import annotations

import sys
import warnings

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
    for rank in range(RANKS):
        group = Group(size=RANKS, position=rank)
        export(shard(whole, group), torch.randn(2, 5, WIDTH), f"block_rank{rank}.onnx", sys.argv[1])
    x = torch.randn(3, 7, WIDTH)
    np.savez("case.npz", x=x.numpy(), y=whole(x).detach().numpy())
