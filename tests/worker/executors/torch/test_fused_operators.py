"""Operators that onnxruntime's optimizer makes: torch gives what onnxruntime's kernels give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from fused_operators import (
    FUSED,
    I32,
    Case,
    assert_equals_onnxruntime,
    by_torch,
    made,
    number,
    real,
    whole,
)

from rankmesh.comm.errors import ModelError

F32, I64, U8 = np.float32, np.int64, np.uint8
SMALL, MIDDLE = number(0.05), number(120, U8)
QUANTISED = (whole(0, 255, 1, 4, 6, 6, dtype=U8), SMALL, MIDDLE)
CASES: list[Case] = [
    ("Gelu", [real(2, 5)], (0,), {}),
    ("BiasGelu", [real(2, 5), real(5)], (0,), {}),
    ("FastGelu", [real(2, 5), real(5)], (0,), {}),
    ("FastGelu", [real(2, 5)], (0,), {}),
    ("QuickGelu", [real(2, 5)], (0,), {"alpha": 1.5}),
    ("FusedMatMul", [real(2, 4, 3), real(2, 5, 4)], (0,), {"transA": 1, "transB": 1, "alpha": 0.5}),
    ("FusedMatMul", [real(3, 2, 4), real(2, 4, 5)], (0,), {"transBatchA": 1}),
    (
        "FusedGemm",
        [real(3, 4), real(4, 5), real(5)],
        (0,),
        {"activation": "LeakyRelu", "activation_alpha": 0.2},
    ),
    (
        "FusedConv",
        [real(1, 2, 5, 5), real(3, 2, 3, 3), real(3)],
        (0,),
        {"activation": "Relu", "pads": [1] * 4},
    ),
    (
        "FusedConv",
        [real(1, 2, 5, 5), real(3, 2, 3, 3), real(3), real(1, 3, 3, 3)],
        (0,),
        {"activation": "Relu"},
    ),
    (
        "FusedConv",
        [real(1, 2, 5, 5), real(3, 2, 3, 3)],
        (0,),
        {"activation": "Clip", "activation_params": [0.0, 0.5]},
    ),
    (
        "MatMulNBits",
        [real(2, 40), whole(0, 256, 6, 2, 16, dtype=U8), real(12)],
        (0,),
        {"K": 40, "N": 6, "bits": 4, "block_size": 32},
    ),
    (
        "MatMulNBits",
        [real(2, 64), whole(0, 256, 6, 2, 16, dtype=U8), real(12), whole(0, 256, 6, dtype=U8)],
        (0,),
        {"K": 64, "N": 6, "bits": 4, "block_size": 32},
    ),
    (
        "MatMulNBits",
        [real(2, 64), whole(0, 256, 6, 2, 32, dtype=U8), real(12)],
        (0,),
        {"K": 64, "N": 6, "bits": 8, "block_size": 32},
    ),
    (
        "SkipLayerNormalization",
        [real(2, 3, 8), real(2, 3, 8), real(8), real(8), real(8)],
        (0, 3),
        {"epsilon": 1e-5},
    ),
    ("SkipLayerNormalization", [real(2, 3, 8), real(1, 3, 8), real(8)], (0,), {}),
    (
        "SkipSimplifiedLayerNormalization",
        [real(2, 3, 8), real(2, 3, 8), real(8), real(8)],
        (0, 3),
        {},
    ),
    (
        "EmbedLayerNormalization",
        [
            whole(0, 9, 2, 4),
            whole(0, 2, 2, 4),
            real(9, 8),
            real(5, 8),
            real(2, 8),
            real(8),
            real(8),
            number([[1, 1, 1, 0], [1, 0, 0, 0]], I32),
        ],
        (0, 1, 2),
        {"epsilon": 1e-5},
    ),
    ("QLinearAdd", [*QUANTISED, *QUANTISED, number(0.1), MIDDLE], (0,), {}),
    ("QLinearMul", [*QUANTISED, *QUANTISED, number(0.2), MIDDLE], (0,), {}),
    ("QLinearSigmoid", [*QUANTISED, number(1 / 256), number(0, U8)], (0,), {}),
    ("QLinearLeakyRelu", [*QUANTISED, SMALL, MIDDLE], (0,), {"alpha": 0.1}),
    (
        "QLinearSoftmax",
        [*QUANTISED, number(1 / 256), number(0, U8)],
        (0,),
        {"axis": -1, "opset": 13},
    ),
    ("QLinearGlobalAveragePool", [*QUANTISED, SMALL, MIDDLE], (0,), {}),
    (
        "QLinearAveragePool",
        [*QUANTISED, SMALL, MIDDLE],
        (0,),
        {"kernel_shape": [2, 2], "channels_last": 1},
    ),
    ("QLinearConcat", [number(0.1), MIDDLE, *QUANTISED, *QUANTISED], (0,), {"axis": 1}),
    (
        "QGemm",
        [
            whole(0, 255, 3, 4, dtype=U8),
            SMALL,
            MIDDLE,
            whole(0, 255, 5, 4, dtype=U8),
            SMALL,
            MIDDLE,
            whole(-99, 99, 5),
            number(0.4),
            MIDDLE,
        ],
        (0,),
        {"transB": 1},
    ),
    (
        "QGemm",
        [
            whole(0, 255, 3, 4, dtype=U8),
            SMALL,
            MIDDLE,
            whole(0, 255, 4, 5, dtype=U8),
            SMALL,
            MIDDLE,
        ],
        (0,),
        {},
    ),
    (
        "MatMulIntegerToFloat",
        [
            whole(0, 255, 3, 4, dtype=U8),
            whole(0, 255, 4, 5, dtype=U8),
            SMALL,
            real(5),
            MIDDLE,
            None,
            real(5),
        ],
        (0,),
        {},
    ),
    (
        "DynamicQuantizeMatMul",
        [real(3, 4), whole(0, 255, 4, 5, dtype=U8), SMALL, MIDDLE, real(5)],
        (0,),
        {},
    ),
    ("QuantizeLinear", [real(3, 4), SMALL, number(900, np.uint16)], (0,), {}),
    (
        "DequantizeLinear",
        [whole(-999, 999, 3, 4, dtype=np.int16), SMALL, number(9, np.int16)],
        (0,),
        {},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[f"{at}-{case[0]}" for at, case in enumerate(CASES)])
def test_a_fused_operator_gives_what_onnxruntime_gives(case: Any) -> None:
    assert_equals_onnxruntime(*made(*case, FUSED))


def test_simplified_layer_normalization_is_in_the_domain_of_onnx() -> None:
    case = ("SimplifiedLayerNormalization", [real(2, 8), real(8)], (0, 1), {"axis": -1})
    assert_equals_onnxruntime(*made(*case, ""))


def test_normalisation_of_groups_with_its_channels_last() -> None:
    """onnxruntime has this one on GPUs only; the model of Stable Diffusion has it."""
    x, scale, shift, skip = real(2, 3, 3, 8), real(8), real(8), real(2, 8)
    attributes = {"groups": 4, "activation": 1, "epsilon": 1e-5}
    case = ("SkipGroupNorm", [x, scale, shift, skip, real(8)], (0, 1), attributes)
    result, total = by_torch(*made(*case, FUSED))
    summed = x + skip[:, None, None] + case[1][4]
    groups = summed.reshape(2, 9, 4, 2)
    centred = groups - groups.mean((1, 3), keepdims=True)
    wide = centred / np.sqrt((centred**2).mean((1, 3), keepdims=True) + 1e-5)
    wanted = wide.reshape(x.shape) * scale + shift
    np.testing.assert_allclose(total, summed, rtol=1e-6)
    np.testing.assert_allclose(result, wanted / (1 + np.exp(-wanted)), rtol=1e-4, atol=1e-5)


def test_fused_activations_that_are_on_gpus_alone() -> None:
    x, bias = real(2, 6), real(6)
    split = ("BiasSplitGelu", [x, bias], (0,), {})
    gelu = ("Gelu", [(x + bias)[:, 3:]], (0,), {})
    (result,), (half,) = (by_torch(*made(*one, FUSED)) for one in (split, gelu))
    np.testing.assert_allclose(result, (x + bias)[:, :3] * half, rtol=1e-5)
    (added,) = by_torch(*made("BiasAdd", [x, bias, x], (0,), {}, FUSED))
    np.testing.assert_allclose(added, x + bias + x)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (("MatMulNBits", [real(2, 4), whole(0, 9, 3, 1, 6, dtype=U8), real(3)], (0,),
          {"K": 4, "N": 3, "bits": 3, "block_size": 16}), "weights of 3 bits, expected 2, 4 or 8"),
        (("FusedGemm", [real(2, 2), real(2, 2), real(2)], (0,), {"activation": "Elu"}),
         "activation Elu, expected one of Clip, HardSigmoid"),
    ],
    ids=["bits", "activation"],
)  # fmt: skip
def test_forms_that_torch_does_not_compute_are_refused(case: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        by_torch(*made(*case, FUSED))
