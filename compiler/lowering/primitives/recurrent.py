"""Recurrent layers: LSTM; MindSpore exports GRU and plain RNN unrolled into arithmetic."""

from __future__ import annotations

import numpy as np

from ..builder import Builder, OnnxTensor, Value, known, lowers, moderate

_MOST_LAYERS = 1 << 12
_GATES = np.array(
    [0, 3, 1, 2]
)  # MindSpore has input, forget, cell, output; ONNX input, output, forget, cell


@lowers("LSTM")
def lstm(
    b: Builder,
    x: Value,
    h: Value,
    c: Value,
    weights: Value,
    *,
    input_size: int,
    hidden_size: int,
    num_layers: int = 1,
    has_bias: bool = True,
    bidirectional: bool = False,
    dropout: float = 0.0,
    proj_size: int = 0,
) -> Value:
    """(outputs of the last layer, last h, last c, and two that only training reads).

    The weights are one flat tensor: the input weights of each layer and direction, then the
    recurrent ones, then the sums of both biases.
    """
    if proj_size:
        raise ValueError(
            "an LSTM with a projection is not supported: apply nn.Dense to its outputs"
        )
    ways = 2 if bidirectional else 1
    moderate(num_layers, "num_layers", _MOST_LAYERS)
    widths = [input_size] + [hidden_size * ways] * (num_layers - 1)
    layers = _LayerWeights(b, b.tensor(weights), widths, hidden_size, ways).layers()
    states = [_per_layer(b, b.tensor(state), num_layers, ways) for state in (h, c)]
    y, last = b.tensor(x), []
    for weights, *starts in zip(layers, *states, strict=True):
        y, *ends = _layer(b, y, [*weights, None, *starts], hidden_size, ways)
        last.append(ends)
    joined = (b.op("Concat", *parts, axis=0) for parts in zip(*last, strict=True))
    return y, *(last[0] if num_layers == 1 else joined), None, None


def _layer(
    b: Builder, x: OnnxTensor, inputs: list[OnnxTensor | None], hidden: int, ways: int
) -> tuple[OnnxTensor, OnnxTensor, OnnxTensor]:
    """(outputs, last h, last c) of one layer."""
    direction = "forward" if ways == 1 else "bidirectional"
    y, h, c = b.ops("LSTM", x, *inputs, outputs=3, hidden_size=hidden, direction=direction)
    if ways == 1:
        return b.op("Squeeze", y, (1,)), h, c
    return b.op("Reshape", b.op("Transpose", y, perm=[0, 2, 1, 3]), (0, 0, ways * hidden)), h, c


def _per_layer(b: Builder, state: OnnxTensor, layers: int, ways: int) -> list[OnnxTensor]:
    """The first state of each layer."""
    if layers == 1:
        return [state]
    return list(b.ops("Split", state, (ways,) * layers, outputs=layers, axis=0))


class _LayerWeights:
    """A flat tensor of weights, cut into the inputs of each layer's node."""

    def __init__(
        self, b: Builder, flat: OnnxTensor, widths: list[int], hidden: int, ways: int
    ) -> None:
        self.b = b
        self.widths = widths
        self.hidden = hidden
        self.ways = ways
        self.gates = 4 * hidden
        self.flat = b.op("Reshape", flat, (-1,))
        self.sizes = [ways * self.gates * width for width in (*widths, *[hidden] * len(widths))]
        rest = known(flat, 0) - sum(self.sizes)
        if rest not in (0, len(widths) * ways * self.gates):
            raise ValueError(f"{rest} biases, expected {len(widths) * ways * self.gates} or none")
        if rest:
            self.sizes += [ways * self.gates] * len(widths)

    def layers(self) -> list[list[OnnxTensor | None]]:
        """Input weights, recurrent weights and biases (or None) per layer."""
        parts = self.b.ops("Split", self.flat, tuple(self.sizes), outputs=len(self.sizes), axis=0)
        count, found = len(self.widths), []
        for at, width in enumerate(self.widths):
            bias = self._bias(parts[2 * count + at]) if len(parts) > 2 * count else None
            own = self._ordered(parts[at], width)
            found.append([own, self._ordered(parts[count + at], self.hidden), bias])
        return found

    def _ordered(self, part: OnnxTensor, width: int) -> OnnxTensor:
        """A matrix per direction with its gates in ONNX order."""
        split = self.b.op("Reshape", part, (self.ways, 4, self.hidden * width))
        gates = self.b.op("Gather", split, _GATES, axis=1)
        return self.b.op("Reshape", gates, (self.ways, self.gates, width))

    def _bias(self, part: OnnxTensor) -> OnnxTensor:
        own = self.b.op("Reshape", self._ordered(part, 1), (self.ways, self.gates))
        return self.b.op("Concat", own, np.zeros((self.ways, self.gates), own.dtype), axis=1)
