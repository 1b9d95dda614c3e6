"""Cases of conversions: fused and quantised operators, which become several of ONNX."""

from __future__ import annotations

import numpy as np
from conversion_cases import IMAGE, Case, floats, integers, signed
from onnx import parser


def octets(*shape: int) -> np.ndarray:
    """Bytes, other in each place."""
    return (np.arange(int(np.prod(shape))) * 37 % 251).astype(np.uint8).reshape(shape)


def small(*shape: int) -> np.ndarray:
    """Integers between -100 and 100."""
    return (octets(*shape).astype(np.int16) % 201 - 100).astype(np.int8)


MS = "com.microsoft::"
SCALE, ZERO = np.float32(0.02), np.uint8(117)
SCALES, ZEROS = np.float32([0.01, 0.02, 0.03]), np.int8([0, 5, -7])
A = (octets(2, 4), SCALE, ZERO)
"""Bytes, with their scale and zero point."""
NEW = (signed(2, 3, 8), signed(2, 3, 8)[::-1].copy(), floats(2, 3, 8))
"""Queries, keys and values of two heads."""
PAST = (signed(2, 2, 5, 4), floats(2, 2, 5, 4))
ANGLES = (np.cos(floats(12, 2)), np.sin(floats(12, 2)))
WIDE_PAST = (signed(2, 2, 5, 16), floats(2, 2, 5, 16))
WIDE_ANGLES = (np.cos(floats(12, 8)), np.sin(floats(12, 8)))

QUANTISED = [
    Case("QuantizeLinear", (signed(2, 3),), (SCALE, ZERO)),
    Case("QuantizeLinear", (signed(2, 3),), (SCALES, ZEROS), {"axis": 1}),
    Case("QuantizeLinear", (signed(2, 3),), (SCALE,)),
    Case("DequantizeLinear", (octets(2, 3),), (SCALE, ZERO)),
    Case("DequantizeLinear", (small(3, 2, 2),), (SCALES, ZEROS), {"axis": 0}),
    Case("DequantizeLinear", (octets(2, 3).astype(np.int32),), (np.float32([0.5]),)),
    Case("DynamicQuantizeLinear", (signed(3, 5) * 3,), outputs=3),
    Case("MatMulInteger", (octets(2, 4),), (small(4, 3), ZERO, ZEROS)),
    Case("MatMulInteger", (octets(2, 2, 4),), (octets(4, 3),)),
    Case("ConvInteger", (octets(1, 2, 5, 5),), (small(3, 2, 3, 3), ZERO), {"pads": [1, 1, 1, 1]}),
    Case("QLinearMatMul", (A[0],), (*A[1:], small(4, 3), SCALES, ZEROS, np.float32(0.9), ZERO)),
    Case(
        "QLinearConv",
        (octets(1, 2, 5, 5),),
        (
            *A[1:],
            small(3, 2, 3, 3),
            SCALES,
            np.zeros(3, np.int8),
            np.float32(0.4),
            ZERO,
            np.int32([100, -200, 300]),
        ),
        {"strides": [2, 2]},
    ),
    Case(MS + "QGemm", (A[0],), (*A[1:], small(4, 3), SCALE, np.int8(0), np.int32([9, 8, 7]))),
    Case(
        MS + "QGemm",
        (A[0],),
        (*A[1:], small(3, 4), SCALE, np.int8(0), None, np.float32(0.5), ZERO),
        {"transB": 1},
    ),
    Case(MS + "QLinearAdd", (A[0],), (*A[1:], octets(4), SCALE, ZERO, np.float32(0.05), ZERO)),
    Case(MS + "QLinearMul", (A[0],), (*A[1:], octets(4), SCALE, ZERO, np.float32(0.05), ZERO)),
    Case(MS + "QLinearSigmoid", (A[0],), (*A[1:], np.float32(1 / 256), np.uint8(0))),
    Case(MS + "QLinearLeakyRelu", (A[0],), (*A[1:], SCALE, ZERO), {"alpha": 0.1}),
    Case(
        MS + "QLinearSoftmax",
        (A[0],),
        (*A[1:], np.float32(1 / 256), np.uint8(0)),
        {"opset": 13, "axis": -1},
    ),
    Case(
        MS + "QLinearGlobalAveragePool",
        (octets(1, 2, 4, 4),),
        (*A[1:], SCALE, ZERO),
        {"channels_last": 0},
    ),
    Case(
        MS + "QLinearAveragePool",
        (octets(1, 2, 4, 4),),
        (*A[1:], np.float32(0.023), ZERO),
        {"kernel_shape": [2, 2], "strides": [2, 2]},
    ),
    Case(
        MS + "QLinearConcat",
        (),
        (np.float32(0.05), ZERO, *A, octets(2, 3), np.float32(0.03), np.uint8(9)),
        {"axis": 1},
    ),
    Case(
        MS + "QLinearWhere",
        (np.array([True, False, True, False]),),
        (*A, octets(4), SCALE, ZERO, np.float32(0.03), ZERO),
    ),
    Case(MS + "QuantizeLinear", (signed(2, 3),), (SCALE, ZERO)),
    Case(MS + "DequantizeLinear", (octets(2, 3),), (SCALE, ZERO)),
    Case(
        MS + "MatMulIntegerToFloat",
        (octets(2, 4),),
        (small(4, 3), SCALE, SCALES, ZERO, ZEROS, floats(3)),
    ),
    Case(MS + "DynamicQuantizeMatMul", (signed(2, 4),), (small(4, 3), SCALES, ZEROS, floats(3))),
    Case(
        MS + "MatMulNBits",
        (signed(2, 32),),
        (octets(3, 2, 8), floats(6)),
        {"K": 32, "N": 3, "bits": 4, "block_size": 16},
    ),
    Case(
        MS + "MatMulNBits",
        (signed(2, 40),),
        (octets(3, 2, 32), floats(6), octets(6), None, floats(3)),
        {"K": 40, "N": 3, "bits": 8, "block_size": 32},
    ),
]
FUSED = [
    Case(MS + "BiasGelu", (signed(2, 3),), (floats(3),)),
    Case(MS + "FastGelu", (signed(2, 3),), (floats(3),)),
    Case(MS + "QuickGelu", (signed(2, 3),)),
    Case(MS + "FusedMatMul", (signed(2, 3), floats(4, 3)), (), {"transB": 1, "alpha": 0.5}),
    Case(MS + "TransposeMatMul", (signed(3, 2), floats(3, 4)), (), {"transA": 1}),
    Case(MS + "FusedGemm", (signed(2, 3),), (floats(3, 4), -floats(4)), {"activation": "Relu"}),
    Case(
        MS + "FusedConv",
        (IMAGE,),
        (signed(3, 4, 3, 3), signed(3), floats(1, 3, 4, 4)),
        {"activation": "Relu"},
    ),
    Case(
        MS + "SkipLayerNormalization",
        (signed(2, 3, 4), floats(2, 3, 4)),
        (floats(4), signed(4), floats(4)),
        {"epsilon": 1e-5},
    ),
    Case(
        MS + "SkipSimplifiedLayerNormalization",
        (signed(2, 3, 4), floats(2, 3, 4)),
        (floats(4),),
        {"epsilon": 1e-5},
    ),
    Case("SimplifiedLayerNormalization", (signed(2, 3, 4),), (floats(4),)),
    Case(
        MS + "RotaryEmbedding",
        (signed(2, 3, 8), np.array([[0, 1, 2], [4, 5, 6]])),
        ANGLES,
        {"interleaved": 1},
    ),
    Case(MS + "RotaryEmbedding", (signed(2, 2, 3, 4), integers(3)), ANGLES),
    Case(
        "RotaryEmbedding",
        (signed(2, 3, 8),),
        (*ANGLES, np.array([[0, 1, 2], [4, 5, 6]])),
        {"num_heads": 2},
        opset=23,
    ),
    Case(
        MS + "Attention",
        (signed(2, 3, 8),),
        (signed(8, 24) / 3, floats(24), np.int32([[1, 1, 1], [1, 1, 0]])),
        {"num_heads": 2},
    ),
    Case(
        MS + "Attention",
        (signed(2, 3, 8),),
        (signed(8, 24) / 3, floats(24)),
        {"num_heads": 2, "unidirectional": 1},
    ),
    Case(MS + "MultiHeadAttention", NEW, (), {"num_heads": 2}),
    Case(
        MS + "MultiHeadAttention",
        NEW,
        (floats(24), None, floats(1, 2, 3, 8), *PAST),
        {"num_heads": 2, "scale": 0.3},
        3,
    ),
    Case(
        MS + "GroupQueryAttention",
        (signed(2, 3, 64), signed(2, 3, 32), floats(2, 3, 32)),
        (None, None, np.int32([2, 2]), np.int32(3), *WIDE_ANGLES),
        {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1},
        3,
    ),
    Case(
        MS + "GroupQueryAttention",
        (signed(2, 1, 64), signed(2, 1, 32), floats(2, 1, 32), *WIDE_PAST),
        (np.int32([5, 5]), np.int32(6), *WIDE_ANGLES),
        {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1, "local_window_size": 3},
        3,
    ),
    Case("Attention", NEW, (), {"q_num_heads": 2, "kv_num_heads": 2, "is_causal": 1}, opset=23),
    Case(
        "Attention",
        (signed(2, 4, 3, 4), signed(2, 2, 5, 4), floats(2, 2, 5, 4)),
        (floats(3, 5),),
        {"scale": 0.5},
        opset=23,
    ),
]
COMPOSED = [
    Case("Celu", (signed(2, 3),), (), {"alpha": 0.5}),
    Case("ThresholdedRelu", (signed(2, 3),), (), {"alpha": 0.3}),
    Case("Shrink", (signed(2, 3),), (), {"bias": 0.1, "lambd": 0.2}),
    Case("Swish", (signed(2, 3),), (), {"alpha": 1.5}, opset=24),
    Case("CastLike", (signed(2, 3),), (integers(1),)),
    Case("IsInf", (np.float32([1, np.inf, -np.inf]),), (), {"detect_negative": 0}),
    Case("IsInf", (np.float32([1, np.inf, -np.inf]),)),
    Case("LpNormalization", (signed(2, 3),)),
    Case("LpNormalization", (signed(2, 3),), (), {"p": 1, "axis": 0}),
    Case("MeanVarianceNormalization", (IMAGE,)),
    Case("ReduceLogSum", (floats(2, 3),), (integers(1),), {"keepdims": 0}),
    Case("ReduceLogSumExp", (signed(2, 3),), (integers(1),), {"keepdims": 0}),
    Case("ReduceLogSumExp", (signed(2, 3),), (), {"axes": [0]}, opset=13),
    Case("Hardmax", (signed(2, 3),)),
    Case("Compress", (signed(3, 4), np.array([True, False, True])), (), {"axis": 0}),
    Case("Compress", (signed(3, 4), np.array([False, True, True])), (), {"axis": 1}),
    Case("LpPool", (IMAGE - 1,), (), {"kernel_shape": [3, 2], "strides": [2, 1]}),
    Case("LpPool", (IMAGE - 1,), (), {"kernel_shape": [2, 2], "p": 3, "pads": [1, 0, 0, 1]}),
    Case("GlobalLpPool", (IMAGE - 1,), (), {"p": 3}),
    Case("LRN", (IMAGE,), (), {"size": 3, "alpha": 0.1}),
    Case("Einsum", (signed(2, 3, 4), floats(2, 4, 5)), (), {"equation": "bij,bjk->bik"}),
    Case("Einsum", (signed(2, 3, 4, 2), floats(5, 4)), (), {"equation": "...dh,kd->h...k"}),
    Case("Einsum", (signed(3, 4), floats(3, 4)), (), {"equation": "ij,ij->i"}),
    Case("Einsum", (signed(3), floats(4)), (), {"equation": "i,j"}),
    Case("Einsum", (signed(2, 3, 4),), (), {"equation": "abc->ca"}),
]
SUMS = parser.parse_graph(
    """
    sums (float[3] state, float[3] a, float[3] b) => (float[3] sum, float[3] each) {
        sum = Add (state, a)
        both = Mul (a, b)
        each = Add (both, sum)
    }
    """
)
"""Of two sequences: the sum so far, and the product of both plus that sum."""
SCAN = {"body": SUMS, "num_scan_inputs": 2}
OTHER_WAY = {
    "scan_input_axes": [0, -1],
    "scan_input_directions": [1, 0],
    "scan_output_axes": [-1],
    "scan_output_directions": [1],
}
SEQUENCES = [
    Case("Scan", (signed(3), signed(4, 3), floats(4, 3)), (), SCAN, outputs=2),
    Case("Scan", (signed(3), signed(4, 3), floats(3, 4)), (), {**SCAN, **OTHER_WAY}, outputs=2),
    Case("DFT", (signed(2, 6, 5, 1),), (), {"onesided": 1}, opset=17),
    Case("DFT", (signed(2, 6, 5, 2),), (integers(8)[0], integers(-3)[0]), {}, opset=20),
    Case("DFT", (signed(2, 6, 5, 2),), (integers(4)[0],), {"inverse": 1}, opset=20),
]
MIXTURES = [
    Case(
        MS + "MoE",
        (signed(5, 6), floats(5, 3)),
        (
            floats(3, 4, 6) - 1,
            floats(3, 4),
            signed(3, 6, 4 // (2 if name == "swiglu" else 1)),
            None,
        ),
        {"k": 2, "activation_type": name, **more},
    )
    for name, more in (
        ("relu", {}),
        ("gelu", {"normalize_routing_weights": 1}),
        ("silu", {}),
        ("identity", {}),
        ("swiglu", {"swiglu_fusion": 1, "activation_alpha": 1.7, "swiglu_limit": 0.5}),
    )
]
HIDDEN_ROWS = [
    Case(
        "Attention",
        (*[signed(1, 2, 2, 4)] * 3, np.array([[True, False], [False, False]])),
        opset=23,
    )
]
"""Of the second query no key is seen."""
EXPANSIONS = [*MIXTURES, *QUANTISED, *FUSED, *COMPOSED, *SEQUENCES, *HIDDEN_ROWS]
