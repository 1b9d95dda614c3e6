"""Families of .ms primitives: the module lowering each, known before it is imported.

Written by `python tests/support/lowering_families.py` from what they register.
"""

from __future__ import annotations

LITE_FAMILIES: dict[str, tuple[str, ...]] = {
    "activation": (
        "Lite.Activation", "Lite.Clip", "Lite.Elu", "Lite.LeakyRelu", "Lite.PReLUFusion",
    ),
    "arithmetic": (
        "Lite.AddFusion", "Lite.DivFusion", "Lite.Eltwise", "Lite.MulFusion", "Lite.SubFusion",
    ),
    "conv": (
        "Lite.Conv2DFusion", "Lite.Conv2dTransposeFusion",
    ),
    "linear": (
        "Lite.FullConnection", "Lite.MatMulFusion",
    ),
    "pool": (
        "Lite.AvgPoolFusion", "Lite.MaxPoolFusion",
    ),
    "shape": (
        "Lite.Reshape", "Lite.Transpose",
    ),
}
LITE_FAMILY_OF = {
    primitive: family for family, primitives in LITE_FAMILIES.items() for primitive in primitives
}
