"""Attention as onnxruntime's optimizer makes it: torch gives what onnxruntime's kernels give."""

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

F32, I64 = np.float32, np.int64
_TURNS = np.arange(80, dtype=F32).reshape(20, 4)
ANGLES = (np.cos(_TURNS), np.sin(_TURNS))
Q, K, V = real(2, 3, 16), real(2, 3, 16), real(2, 3, 16)
PAST = real(2, 2, 5, 8)
MORE_ANGLES = [np.concatenate((one, one + 1), 1) for one in ANGLES]
WIDE, WIDE_PAST = real(2, 3, 32), real(2, 2, 5, 16)
CASES: list[Case] = [
    (
        "Attention",
        [real(2, 3, 8), real(8, 24), real(24), number([3, 2], I32)],
        (0,),
        {"num_heads": 2},
    ),
    (
        "Attention",
        [real(2, 3, 8), real(8, 24), real(24), number([[1, 1, 0], [1, 1, 1]], I32)],
        (0,),
        {"num_heads": 2},
    ),
    (
        "Attention",
        [real(2, 3, 8), real(8, 24), real(24), number([3, 3, 1, 0], I32)],
        (0,),
        {"num_heads": 2},
    ),
    (
        "Attention",
        [real(2, 3, 8), real(8, 24), real(24), None, real(2, 2, 2, 5, 4)],
        (0, 1),
        {"num_heads": 2, "unidirectional": 1},
    ),
    (
        "Attention",
        [real(2, 3, 8), real(8, 20), real(20), None, None, real(2, 2, 3, 3)],
        (0,),
        {"num_heads": 2, "qkv_hidden_sizes": [8, 8, 4]},
    ),
    ("MultiHeadAttention", [Q, K, V, real(48)], (0,), {"num_heads": 2}),
    (
        "MultiHeadAttention",
        [Q, K, V, None, number([[1, 1, 0], [1, 1, 1]], I32)],
        (0,),
        {"num_heads": 4},
    ),
    (
        "MultiHeadAttention",
        [Q, K, V, real(48), None, real(1, 2, 3, 8), PAST, PAST[::-1].copy()],
        (0, 1, 2),
        {"num_heads": 2, "unidirectional": 1},
    ),
    ("MultiHeadAttention", [Q, PAST, PAST * 2], (0,), {"num_heads": 2, "scale": 0.3}),
    ("RotaryEmbedding", [Q, whole(0, 20, 2, 3, dtype=I64), *ANGLES], (0,), {}),
    (
        "RotaryEmbedding",
        [Q.reshape(2, 2, 3, 8), number([4], I64), *ANGLES],
        (0,),
        {"interleaved": 1},
    ),
    (
        "GroupQueryAttention",
        [real(2, 3, 64), WIDE, WIDE, None, None, number([2, 2], I32), number(3, I32), *MORE_ANGLES],
        (0, 1, 2),
        {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1},
    ),
    (
        "GroupQueryAttention",
        [
            real(2, 1, 128),
            None,
            None,
            WIDE_PAST,
            WIDE_PAST,
            number([5, 5], I32),
            number(6, I32),
            *MORE_ANGLES,
        ],
        (0, 1, 2),
        {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1, "rotary_interleaved": 1},
    ),
    (
        "GroupQueryAttention",
        [
            real(2, 1, 32),
            real(2, 1, 16),
            real(2, 1, 16),
            PAST,
            PAST,
            number([5, 5], I32),
            number(6, I32),
        ],
        (0, 1, 2),
        {"num_heads": 4, "kv_num_heads": 2, "local_window_size": 3, "softcap": 2.0, "scale": 0.4},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[f"{at}-{case[0]}" for at, case in enumerate(CASES)])
def test_fused_attention_gives_what_onnxruntime_gives(case: Any) -> None:
    assert_equals_onnxruntime(*made(*case, FUSED))


def test_sequences_of_different_lengths_share_a_cache() -> None:
    """What lies behind the shorter one in the cache takes no part."""
    query, past = real(2, 1, 64), real(2, 2, 5, 8)
    attributes = {"num_heads": 4, "kv_num_heads": 2}

    def attended(rows: slice, past: np.ndarray, most: int) -> np.ndarray:
        ends = number([5, 3], I32)[rows]
        inputs = [query[rows], None, None, past, past, ends, number(most, I32)]
        case = ("GroupQueryAttention", inputs, (0, 1, 2), attributes)
        return by_torch(*made(*case, FUSED))[0]

    both = attended(slice(0, 2), past, 6)
    np.testing.assert_allclose(both[:1], attended(slice(0, 1), past[:1], 6), rtol=1e-5)
    np.testing.assert_allclose(both[1:], attended(slice(1, 2), past[1:, :, :3], 4), rtol=1e-5)


def test_forms_of_attention_that_torch_does_not_compute_are_refused() -> None:
    case = ("Attention", [real(1, 2, 4), real(4, 12)], (0,), {"num_heads": 1, "do_rotary": 1})
    with pytest.raises(ModelError, match="do_rotary is 1, expected 0"):
        by_torch(*made(*case, FUSED))
