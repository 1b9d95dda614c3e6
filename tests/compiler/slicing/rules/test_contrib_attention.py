"""Every strategy of onnxruntime's own attention operators gives what the whole node gives."""

from __future__ import annotations

import numpy as np
import pytest
from slicing import check_strategies, graph_of, one_node

from rankmesh.compiler.slicing.placement.placements import Split
from rankmesh.compiler.slicing.planning.propagate import propagate

DRAW = np.random.default_rng(5)
MS = "com.microsoft"


def normal(*shape: int) -> np.ndarray:
    return DRAW.standard_normal(shape).astype(np.float32)


def int32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


@pytest.mark.parametrize("form", ["plain", "values", "past", "mask", "lengths", "bias"])
def test_attention(form: str) -> None:
    heads, size, value = 5, 4, 6 if form == "values" else 4
    hidden = heads * (2 * size + value)
    attributes: dict[str, object] = {"num_heads": heads}
    if form == "values":
        attributes["qkv_hidden_sizes"] = [heads * size, heads * size, heads * value]
    mask = {"mask": np.ones((4, 3), np.int32), "lengths": int32(3, 2, 1, 3)}.get(form)
    past = normal(2, 4, heads, 2, size) if form == "past" else None
    bias = normal(1, heads, 3, 3) if form == "bias" else None
    arrays = [normal(4, 3, 8), normal(8, hidden), normal(hidden), mask, past, bias]
    outputs = 2 if form == "past" else 1
    model = one_node("Attention", arrays, (1, 2), outputs, MS, **attributes)
    check_strategies(*model, ranks=(2, 3, 4), least=2)


@pytest.mark.parametrize("form", ["apart", "values", "cross", "past", "padding"])
def test_multi_head_attention(form: str) -> None:
    heads, size, value, batch, length = 4, 6, 5 if form == "values" else 6, 4, 3
    apart = normal(batch, length, heads * size)
    arrays: list[np.ndarray | None] = [apart, normal(*apart.shape)]
    arrays += [normal(batch, length, heads * value), normal(heads * (2 * size + value))]
    outputs = 1
    match form:
        case "cross":
            arrays = [apart, normal(batch, heads, 7, size), normal(batch, heads, 7, size)]
        case "past":
            bias = normal(1, heads, length, length + 2)
            arrays = [*arrays[:3], None, None, bias, *[normal(batch, heads, 2, size)] * 2]
            outputs = 3
        case "padding":
            arrays.append(np.ones((batch, length), np.int32))
    model = one_node("MultiHeadAttention", arrays, (3,), outputs, MS, num_heads=heads)
    check_strategies(*model, ranks=(2, 3, 4), least=2)


@pytest.mark.parametrize("form", ["apart", "cross"])
def test_decoder_masked_attention(form: str) -> None:
    batch, heads, size = 4, 5, 4
    query = normal(batch, 1, heads * size)
    cache = [normal(batch, heads, 6, size), normal(batch, heads, 6, size)]
    arrays: list[np.ndarray | None] = [query, normal(*query.shape), normal(*query.shape)]
    if form == "cross":
        arrays = [query, *cache]
    else:
        arrays += [None, None, *cache, int32(4)]
    arrays += [None] * (10 - len(arrays)) + [normal(3 * heads * size)]
    model = one_node(
        "DecoderMaskedMultiHeadAttention",
        arrays,
        (),
        1 if form == "cross" else 3,
        MS,
        num_heads=heads,
        past_present_share_buffer=int(form != "cross"),
    )
    check_strategies(*model, ranks=(2, 3, 4), least=2)


@pytest.mark.parametrize(
    ("heads", "groups", "form"),
    [(h, g, form) for h, g in [(4, 4), (6, 2)] for form in ("apart", "joined", "past", "rotary")]
    + [(8, 4, "joined"), (6, 3, "past"), (4, 1, "past")],
)
def test_group_query_attention(heads: int, groups: int, form: str) -> None:
    batch, length, size, past = 4, 3, 16, 0
    if form == "past":
        batch, past = 1, 2
    arrays: list[np.ndarray | None] = [normal(batch, length, heads * size)]
    arrays += [normal(batch, length, groups * size), normal(batch, length, groups * size)]
    if form == "joined":
        arrays = [normal(batch, length, (heads + 2 * groups) * size), None, None]
    arrays += [normal(batch, groups, past, size), normal(batch, groups, past, size)]
    total = int32(past + length)
    arrays += [int32(*[past + length - 1] * batch), total.reshape(())]
    weights = (6,)
    if form == "rotary":
        arrays += [normal(16, size // 2), normal(16, size // 2)]
        weights = (6, 7, 8)
    model = one_node(
        "GroupQueryAttention",
        arrays,
        weights,
        3,
        MS,
        num_heads=heads,
        kv_num_heads=groups,
        do_rotary=int(form == "rotary"),
    )
    check_strategies(*model, ranks=(2, 3, 4), least=1)


def test_query_heads_are_split_where_the_groups_are_fewer_than_ranks() -> None:
    arrays = [normal(1, 1, 24), normal(1, 1, 8), normal(1, 1, 8), None, None]
    arrays += [int32(0), int32(1).reshape(())]
    model, _ = one_node("GroupQueryAttention", arrays, (6,), 1, MS, num_heads=6, kv_num_heads=2)
    (strategies,) = propagate(graph_of(model), 4).strategies.values()
    assert Split(2, (0, 8, 12, 20, 24)) in [one.outputs[0] for one in strategies]


@pytest.mark.parametrize("form", ["flat", "heads", "counted", "one position"])
def test_rotary_embedding(form: str) -> None:
    batch, length, heads, size = 4, 3, 5, 8
    data = normal(batch, heads, length, size)
    if form != "heads":
        data = normal(batch, length, heads * size)
    positions = np.arange(batch * length).reshape(batch, length) % 7
    if form == "one position":
        positions = np.array([2])
    attributes = {"num_heads": heads, "rotary_embedding_dim": 4} if form == "counted" else {}
    width = 2 if form == "counted" else size // 2
    arrays = [data, positions, normal(16, width), normal(16, width)]
    model = one_node("RotaryEmbedding", arrays, (2, 3), 1, MS, **attributes)
    check_strategies(*model, ranks=(2, 3, 4), least=1 if form == "one position" else 2)
