"""Every strategy of attention and rotary embedding gives what the whole node gives."""

from __future__ import annotations

import numpy as np
import pytest
from slicing import check_strategies, one_node

DRAW = np.random.default_rng(9)


def normal(*shape: int) -> np.ndarray:
    return DRAW.standard_normal(shape).astype(np.float32)


def integers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize("heads", [(4, 4), (8, 4), (6, 1), (5, 5)])
@pytest.mark.parametrize(
    ("packed", "mask"),
    [
        (True, None),
        (False, (7, 9)),
        (True, (4, 1, 7, 9)),
        (False, (1, 0, 7, 9)),
        (True, (4, 0, 7, 9)),
    ],
)
def test_attention(heads: tuple[int, int], packed: bool, mask: tuple[int, ...] | None) -> None:
    queries, keys = heads
    inputs: list[np.ndarray | None] = [
        normal(4, queries, 7, 8),
        normal(4, keys, 9, 8),
        normal(4, keys, 9, 6),
    ]
    attributes = {}
    if packed:
        inputs = [one.transpose(0, 2, 1, 3).reshape(4, one.shape[2], -1) for one in inputs]
        attributes = {"q_num_heads": queries, "kv_num_heads": keys}
    if mask is not None:
        inputs.append(normal(*(size or queries for size in mask)))
    model = one_node("Attention", inputs, opset=23, **attributes)
    check_strategies(*model, ranks=(2, 4) if queries == 8 else (2, 3), least=3)


@pytest.mark.parametrize("heads", [(4, 4), (8, 4), (6, 1)])
@pytest.mark.parametrize("packed", [True, False])
def test_attention_with_past_and_scores(heads: tuple[int, int], packed: bool) -> None:
    queries, keys = heads
    inputs: list[np.ndarray | None] = [normal(4, h, 3, 8) for h in (queries, keys, keys)]
    attributes = {"is_causal": 1, "softcap": 2.0, "scale": 0.3, "qk_matmul_output_mode": 1}
    if packed:
        inputs = [one.transpose(0, 2, 1, 3).reshape(4, 3, -1) for one in inputs]
        attributes |= {"q_num_heads": queries, "kv_num_heads": keys}
    inputs += [normal(1, queries, 3, 8), normal(4, keys, 5, 8), normal(4, keys, 5, 8)]
    model = one_node("Attention", inputs, outputs=4, opset=23, **attributes)
    check_strategies(*model, ranks=(2, 3), least=2)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("positions", [True, False])
def test_rotary_embedding(packed: bool, positions: bool, interleaved: int) -> None:
    data = normal(4, 6, 5, 8)
    inputs: list[np.ndarray | None] = [
        data.transpose(0, 2, 1, 3).reshape(4, 5, -1) if packed else data
    ]
    inputs += [normal(9, 4), normal(9, 4)] if positions else [normal(4, 5, 4), normal(4, 5, 4)]
    inputs += [DRAW.integers(0, 9, (4, 5))] if positions else []
    attributes = {"num_heads": 6} if packed else {}
    model = one_node("RotaryEmbedding", inputs, opset=23, interleaved=interleaved, **attributes)
    check_strategies(*model, ranks=(2, 3), least=3)
