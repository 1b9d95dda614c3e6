"""Exports the networks of tests/data/names: `python names.py FOLDER first`, and in another process
`... FOLDER second`.

In the second process other networks are exported before, which changes the graphs' generated names.
"""

from __future__ import annotations

import os
import sys

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops


class Heads(nn.Cell):
    """Nested results, an input that nothing uses, inputs that are returned, unknown dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.left, self.right = nn.Dense(6, 8), nn.Dense(8, 3), nn.Dense(8, 2)

    def construct(self, tokens: Tensor, mask: Tensor, unused: Tensor, bias: Tensor) -> tuple:  # type: ignore[type-arg]
        h = ops.relu(self.body(tokens)) * mask
        return self.left(h), (self.right(h) + bias, mask), tokens


class Blocks(nn.Cell):
    """Cells in a list, whose parameters get numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.CellList([nn.Dense(4, 4) for _ in range(3)])

    def construct(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = ops.tanh(block(x))
        return x


def export(net: nn.Cell, name: str, *inputs: Tensor) -> None:
    ms.export(net, *inputs, file_name=name, file_format="MINDIR")


def main(folder: str, which: str) -> None:
    ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
    os.makedirs(folder, exist_ok=True)
    row = Tensor(np.ones((2, 4), np.float32))
    if which == "second":
        for _ in range(3):
            export(nn.SequentialCell(nn.Dense(4, 4), nn.Dense(4, 4)), f"{folder}/other", row)
        os.remove(f"{folder}/other.mindir")
    ms.set_seed(7)
    heads, blocks = Heads(), Blocks()
    export(
        heads,
        f"{folder}/heads_{which}",
        Tensor(shape=[None, 6], dtype=ms.float32),
        Tensor(shape=[None, 1], dtype=ms.float32),
        Tensor(np.ones(2, np.int32)),
        Tensor(np.float32(0.5)),
    )
    export(blocks, f"{folder}/blocks_{which}", row)


main(*sys.argv[1:])
