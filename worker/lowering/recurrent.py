"""Recurrent layers; GRU and plain RNN arrive unrolled into arithmetic."""

from __future__ import annotations

import numpy as np

from .arguments import known
from .builder import Builder, Tensor, Value
from .registry import lowers

_GATES = np.array([0, 3, 1, 2])  # MindSpore has input, forget, cell, output; ONNX input, output, forget, cell


@lowers("LSTM")
def lstm(b: Builder, x: Value, h: Value, c: Value, weights: Value, *, input_size: int, hidden_size: int,
         num_layers: int = 1, has_bias: bool = True, bidirectional: bool = False, dropout: float = 0.0,
         proj_size: int = 0) -> Value:
    """One layer in one direction: (all outputs, last h, last c, and two that only training reads).

    The weights are one flat tensor: input, recurrent, and the sum of the two biases.
    """
    if num_layers != 1 or bidirectional or proj_size:
        raise ValueError("an LSTM node of several layers, two directions or a projection is not supported: use "
                         "nn.LSTM, which exports one node per layer and direction")
    flat, gates = b.op("Reshape", b.tensor(weights), (-1,)), 4 * hidden_size
    sizes = [gates * input_size, gates * hidden_size]
    rest = known(b.tensor(weights), 0) - sum(sizes)
    if rest not in (0, gates):
        raise ValueError(f"{rest} biases, expected {gates} or none")
    parts = b.op("Split", flat, (*sizes, rest) if rest else tuple(sizes), outputs=3 if rest else 2, axis=0)
    w, r = _per_gate(b, parts[0], hidden_size * input_size), _per_gate(b, parts[1], hidden_size * hidden_size)
    inputs = [b.op("Reshape", w, (1, gates, input_size)), b.op("Reshape", r, (1, gates, hidden_size))]
    bias = None
    if rest:
        own = b.op("Reshape", _per_gate(b, parts[2], hidden_size), (1, gates))
        bias = b.op("Concat", own, np.zeros((1, gates), own.dtype), axis=1)
    y, last_h, last_c = b.op("LSTM", b.tensor(x), *inputs, bias, None, b.tensor(h), b.tensor(c), outputs=3,
                             hidden_size=hidden_size)
    return b.op("Squeeze", y, (1,)), last_h, last_c, None, None


def _per_gate(b: Builder, flat: Tensor, count: int) -> Tensor:
    """A flat part with its gates in ONNX order."""
    result: Tensor = b.op("Gather", b.op("Reshape", flat, (4, count)), _GATES, axis=0)
    return result
