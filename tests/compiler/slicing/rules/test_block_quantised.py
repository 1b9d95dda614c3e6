"""Every strategy of weights in blocks of a few bits gives what the whole node gives."""

from __future__ import annotations

import numpy as np
import pytest
from slicing import check_strategies, one_node

DRAW = np.random.default_rng(13)
MS = "com.microsoft"


def normal(*shape: int) -> np.ndarray:
    return DRAW.standard_normal(shape).astype(np.float32)


def uint8(*shape: int) -> np.ndarray:
    return DRAW.integers(0, 255, shape).astype(np.uint8)


@pytest.mark.parametrize(
    ("bits", "zeros"), [(4, "none"), (4, "packed"), (4, "float"), (8, "packed"), (2, "packed")]
)
@pytest.mark.parametrize(("blocks", "flat"), [(8, False), (3, False), (8, True)])
def test_block_matmul(bits: int, zeros: str, blocks: int, flat: bool) -> None:
    columns, block = 9, 16
    row = -(-blocks * bits // 8)
    zero = {"none": None, "packed": uint8(columns, row), "float": normal(columns, blocks)}[zeros]
    scale = normal(columns, blocks)
    if flat:
        scale, zero = scale.reshape(-1), None if zero is None else zero.reshape(-1)
    weights = uint8(columns, blocks, block * bits // 8)
    arrays = [normal(2, 3, blocks * block), weights, scale, zero, None, normal(columns)]
    model = one_node(
        "MatMulNBits",
        arrays,
        (1, 2, 3, 5),
        domain=MS,
        K=blocks * block,
        N=columns,
        bits=bits,
        block_size=block,
    )
    check_strategies(*model, ranks=(2, 3))


@pytest.mark.parametrize("zeros", [False, True])
def test_block_gather(zeros: bool) -> None:
    rows, blocks, block = 12, 4, 16
    picked = DRAW.integers(-rows, rows, (4, 5))
    arrays = [uint8(rows, blocks * block // 2), picked, normal(rows, blocks)]
    arrays += [uint8(rows, blocks // 2)] if zeros else []
    model = one_node(
        "GatherBlockQuantized",
        arrays,
        (0, 2, 3),
        domain=MS,
        bits=4,
        block_size=block,
        gather_axis=0,
        quantize_axis=1,
    )
    check_strategies(*model, least=3)
