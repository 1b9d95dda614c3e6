"""Every strategy of recurrent layers gives what the whole node gives."""

from __future__ import annotations

import numpy as np
import pytest
from slicing import check_strategies, one_node

DRAW = np.random.default_rng(10)


def normal(*shape: int) -> np.ndarray:
    return DRAW.standard_normal(shape).astype(np.float32)


def integers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


@pytest.mark.parametrize("operator", GATES)
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("states", [True, False])
@pytest.mark.parametrize("ranks", [2, 3])
def test_recurrent(operator: str, direction: str, states: bool, ranks: int) -> None:
    many, gates = 1 + (direction == "bidirectional"), GATES[operator]
    inputs: list[np.ndarray | None] = [
        normal(5, 4, 6),
        normal(many, gates * 3, 6),
        normal(many, gates * 3, 3),
        normal(many, gates * 6),
    ]
    if states:
        inputs += [np.array([5, 2, 3, 4], np.int32), normal(many, 4, 3)]
        inputs += [normal(many, 4, 3), normal(many, 9)] if operator == "LSTM" else []
    names = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}
    model = one_node(
        operator,
        inputs,
        (1, 2, 3),
        outputs=3 if operator == "LSTM" else 2,
        hidden_size=3,
        direction=direction,
        activations=names[operator] * many,
    )
    check_strategies(*model, ranks=(ranks,), least=many if ranks == 2 else 1)
