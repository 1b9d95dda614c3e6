"""Exports small networks of mindcv and Python patterns that need care, with MindSpore's results,
for tests/data/mindir.

Runs in an environment that has mindspore and mindcv (and no Rankmesh):

    python tests/oracle/patterns.py tests/data/mindir [NAME ...]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindcv.models import crossvit
from mindspore import Tensor, nn, ops
from transformers import record

RNG = np.random.default_rng(3)


class InPlace(nn.Cell):
    """`x += y`: a value taken before keeps what it was, other names of the same tensor see what was
    written.
    """

    def construct(self, x, y):
        a = ops.relu(x)
        kept, same = a * 3, a
        a += y
        x += y
        return kept + same * 10 + a, x


class Kinds(nn.Cell):
    """Several in-place operators in a row, and sums in buffers that begin with equal zeros."""

    def construct(self, x, y):
        b = ops.relu(x)
        b += y
        b -= y * 2
        b *= y
        b /= 3
        b += ops.cast(y, ms.float16)
        b += 1
        c = ops.zeros_like(x)
        d = ops.zeros_like(x)
        for i in range(3):
            c += x * i
        return b, c, d


class Picked(nn.Cell):
    """One row per item, by two indices at once, where the sizes are unknown to the file."""

    def construct(self, x, ids):
        return x[ops.arange(ids.shape[0]), ids.argmax(-1)] * 2


def crossed() -> nn.Cell:
    """CrossViT: two branches of different patches that exchange their class tokens."""
    return crossvit.VisionTransformer(
        img_size=[12, 14],
        patch_size=[6, 7],
        embed_dim=[8, 16],
        num_classes=5,
        depth=[[1, 1, 0]],
        num_heads=[2, 2],
        mlp_ratio=[2, 2, 1],
        qkv_bias=True,
        multi_conv=False,
    )


def normal(*shape: int) -> np.ndarray:
    """Standard normal numbers."""
    return RNG.standard_normal(shape).astype(np.float32)


ENTRIES: dict[str, tuple[Any, list[np.ndarray], bool]] = {
    "py_in_place": (InPlace, [normal(2, 3), normal(2, 3)], False),
    "py_in_place_kinds": (Kinds, [normal(2, 3), normal(2, 3)], False),
    "py_picked_dyn": (
        Picked,
        [normal(2, 4, 3), RNG.permuted(np.tile(np.arange(4), (2, 1)), axis=1)],
        True,
    ),
    "cv_crossvit": (crossed, [normal(1, 3, 14, 14)], False),
}


def main(folder: Path, names: list[str]) -> None:
    """Write all entries, or those named."""
    ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
    for name, (make, arrays, dynamic) in ENTRIES.items():
        if not names or name in names:
            ms.set_seed(7)
            np.random.seed(7)
            net = make().set_train(False)
            for parameter in net.get_parameters():
                parameter.set_data(
                    Tensor(
                        0.3 * np.random.standard_normal(parameter.shape).astype(np.float32) ** 2
                        + 0.1
                        if "variance" in parameter.name
                        else 0.3 * np.random.standard_normal(parameter.shape).astype(np.float32)
                    )
                )
            inputs = [
                Tensor(shape=[None, *a.shape[1:]], dtype=Tensor(a).dtype)
                if dynamic
                else Tensor(a.copy())
                for a in arrays
            ]
            record(folder, name, net, [array.copy() for array in arrays], inputs)
            print(name, "recorded", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
