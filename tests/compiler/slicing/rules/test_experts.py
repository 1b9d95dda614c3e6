"""Every strategy of mixtures of experts gives what the whole node gives."""

from __future__ import annotations

import numpy as np
import pytest
from slicing import check_strategies, one_node

DRAW = np.random.default_rng(17)
MS = "com.microsoft"


def normal(*shape: int) -> np.ndarray:
    return DRAW.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("fusion", [0, 1])
@pytest.mark.parametrize("bias", [False, True])
def test_mixture(fusion: int, bias: bool) -> None:
    tokens, hidden, inner, experts = 5, 8, 6, 3
    rows = inner * (2 if fusion else 1)
    arrays: list[np.ndarray | None] = [normal(tokens, hidden), normal(tokens, experts)]
    arrays += [normal(experts, rows, hidden), normal(experts, rows) if bias else None]
    arrays += [normal(experts, hidden, inner), normal(experts, hidden) if bias else None]
    model = one_node(
        "MoE",
        arrays,
        (2, 3, 4, 5),
        domain=MS,
        k=2,
        activation_type="swiglu" if fusion else "gelu",
        swiglu_fusion=fusion,
        normalize_routing_weights=1,
    )
    check_strategies(*model, least=2)


@pytest.mark.parametrize("block", [0, 16])
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("fusion", [0, 1])
def test_quantised_mixture(block: int, bits: int, fusion: int) -> None:
    tokens, hidden, inner, experts = 4, 32, 64, 3
    rows, part = inner * (2 if fusion else 1), 8 // bits

    def layer(out: int, into: int) -> list[np.ndarray | None]:
        weights = DRAW.integers(0, 255, (experts, out, into // part)).astype(np.uint8)
        scale = (experts, out, into // block) if block else (experts, out)
        return [weights, DRAW.uniform(0.01, 0.02, scale).astype(np.float32), normal(experts, out)]

    arrays: list[np.ndarray | None] = [normal(tokens, hidden), normal(tokens, experts)]
    arrays += [*layer(rows, hidden), *layer(hidden, inner)]
    attributes = {"block_size": block} if block else {}
    model = one_node(
        "QMoE",
        arrays,
        tuple(range(2, 8)),
        domain=MS,
        k=2,
        activation_type="swiglu" if fusion else "gelu",
        swiglu_fusion=fusion,
        expert_weight_bits=bits,
        **attributes,
    )
    check_strategies(*model, ranks=(2, 3), least=2)
