"""LSTM: layers of one or both directions by MindSpore's primitive."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...element_types.value_types import TensorType, TupleType
from ..mindir.values import MindirValue
from .directions import directions, first_state, joined, ranged, require_one_length
from .node_conversion import NodeConversion
from .registry import converts

_LSTM_GATES = (0, 2, 3, 1)
"""ONNX has the gates input, output, forget, cell; MindSpore input, forget, cell, output."""


@converts("LSTM")
def lstm(
    c: NodeConversion,
    x: MindirValue,
    weight: MindirValue,
    recurrence: MindirValue,
    bias: MindirValue | None = None,
    lengths: MindirValue | None = None,
    hidden: MindirValue | None = None,
    cell: MindirValue | None = None,
    peepholes: MindirValue | None = None,
    *,
    hidden_size: int = 0,
    direction: str = "forward",
    layout: int = 0,
    activations: Sequence[str] = (),
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    clip: float = 0.0,
    input_forget: int = 0,
) -> list[MindirValue]:
    """Layers of one or both directions, with the usual activations."""
    usual = set(activations) <= {"Sigmoid", "Tanh"}
    if peepholes is not None or clip or input_forget or layout or not usual:
        raise ValueError("peepholes, clip, input_forget, layout and activations are not supported")
    require_one_length(x, lengths)
    parts = []
    for index, backward in enumerate(directions(direction)):
        states = [first_state(c, one, index, x, recurrence) for one in (hidden, cell)]
        flat = _flat_weight(c, weight, recurrence, bias, index)
        parts.append(_lstm_layer(c, x, states, flat, weight, bias is not None, backward))
    return joined(c, parts)


def _lstm_layer(
    c: NodeConversion,
    x: MindirValue,
    states: Sequence[MindirValue],
    flat: MindirValue,
    weight: MindirValue,
    has_bias: bool,
    backward: bool,
) -> tuple[MindirValue, ...]:
    """The outputs, the last hidden state and the last cell of one direction."""
    size = weight.shape[1] // 4
    given = c.apply("ReverseV2", x, (0,), type=x.type) if backward else x
    steps = TensorType(x.dtype, (*x.shape[:2], size))
    state = TensorType(x.dtype, states[0].shape)
    rest = TensorType(x.dtype, (1, 1))
    kind = TupleType((steps, state, state, rest, rest))
    found = c.apply(
        "LSTM",
        given,
        *states,
        flat,
        type=kind,
        bidirectional=False,
        dropout=0.0,
        has_bias=has_bias,
        hidden_size=size,
        input_size=x.shape[2],
        num_layers=1,
        proj_size=0,
    )
    outputs, last, cell = (c.builder.item(found, index) for index in range(3))
    if backward:
        outputs = c.apply("ReverseV2", outputs, (0,), type=steps)
    return outputs, last, cell


def _flat_weight(
    c: NodeConversion,
    weight: MindirValue,
    recurrence: MindirValue,
    bias: MindirValue | None,
    index: int,
) -> MindirValue:
    """Both matrices and the sum of both biases, one after the other."""
    rows = weight.shape[1]
    parts = [_gates(c, one, index, _LSTM_GATES, rows) for one in (weight, recurrence)]
    if bias is not None:
        halves = [
            ranged(c, bias, {0: (index, index + 1), 1: (half * rows, (half + 1) * rows)})
            for half in (0, 1)
        ]
        both = c.apply("Add", *halves, type=halves[0].type)
        parts.append(_gates(c, both, 0, _LSTM_GATES, rows))
    flat = [c.reshaped(one, (int(np.prod(one.shape)), 1, 1)) for one in parts]
    count = sum(one.shape[0] for one in flat)
    kind = TensorType(weight.dtype, (count, 1, 1))
    return c.apply("Concat", c.builder.tuple(flat), 0, type=kind)


def _gates(
    c: NodeConversion, x: MindirValue, index: int, order: Sequence[int], rows: int
) -> MindirValue:
    """The rows of one direction, with the gates in another order."""
    size = rows // len(order)
    parts = [
        ranged(c, x, {0: (index, index + 1), 1: (gate * size, (gate + 1) * size)}) for gate in order
    ]
    kind = TensorType(x.dtype, (1, rows, *x.shape[2:]))
    return c.apply("Concat", c.builder.tuple(parts), 1, type=kind)
