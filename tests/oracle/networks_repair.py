"""What mindcv 0.3 calls as older MindSpore had it, given back so that VOLO, HaloNet, PVT and ReXNet
export.

MAE's networks for training lack their entries in mindcv's own table, which only says where weights
are.
"""

from __future__ import annotations

from types import SimpleNamespace

import mindspore as ms
import mindspore.common.initializer as initializers
from mindspore import ops

FLAT_PAD = ops.pad


def pad(x, padding=None, mode="constant", value=None, paddings=None):
    """ops.pad, which once took one pair per axis, from the first axis on."""
    pairs = padding if paddings is None else paddings
    if isinstance(pairs[0], tuple):
        return ops.Pad(pairs)(x)
    return FLAT_PAD(x, pairs, mode, value)


def resize_bilinear(size):
    """The operator that ResizeBilinearV2 replaced."""

    def resize(x):
        return ops.ResizeBilinearV2()(x, size)

    return resize


def initialized(*arguments):
    """An initialised tensor, which may be reshaped."""
    return initializers.initializer(*arguments).init_data()


def repair() -> None:
    """Put the old calls in place."""
    from mindcv.models import mae, rexnet, volo

    class Fold(volo.Fold):
        """VOLO's own, whose weight is float16 whatever the network is."""

        def __init__(self, *arguments, **keywords):
            super().__init__(*arguments, **keywords)
            self.weight = self.weight.astype(ms.float32)

    for size in "blh":
        mae.default_cfgs.setdefault(f"mae_{size}_16_224_pretrain", {})
    volo.Fold = Fold
    ops.pad = pad
    ops.ResizeBilinear = resize_bilinear
    rexnet.init = SimpleNamespace(initializer=initialized, HeUniform=initializers.HeUniform)
