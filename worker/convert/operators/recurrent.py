"""Recurrent layers: LSTM as MindSpore's primitive, GRU and RNN step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...mindir.graph import TensorType, TupleType
from ..mindir.values import MindirValue
from .node_conversion import NodeConversion
from .registry import converts
from .shape import sliced

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
    _require_whole(x, lengths)
    parts = []
    for index, backward in enumerate(_directions(direction)):
        states = [_state(c, one, index, x.shape[1], recurrence) for one in (hidden, cell)]
        flat = _flat_weight(c, weight, recurrence, bias, index)
        parts.append(_lstm_layer(c, x, states, flat, weight, bias is not None, backward))
    return _joined(c, parts)


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
    state = states[0].type
    kind = TupleType(
        (steps, state, state, TensorType(x.dtype, (1, 1)), TensorType(x.dtype, (1, 1)))
    )
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
            _range(c, bias, {0: (index, index + 1), 1: (half * rows, (half + 1) * rows)})
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
        _range(c, x, {0: (index, index + 1), 1: (gate * size, (gate + 1) * size)}) for gate in order
    ]
    kind = TensorType(x.dtype, (1, rows, *x.shape[2:]))
    return c.apply("Concat", c.builder.tuple(parts), 1, type=kind)


@converts("GRU")
def gru(
    c: NodeConversion,
    x: MindirValue,
    weight: MindirValue,
    recurrence: MindirValue,
    bias: MindirValue | None = None,
    lengths: MindirValue | None = None,
    hidden: MindirValue | None = None,
    *,
    hidden_size: int = 0,
    direction: str = "forward",
    layout: int = 0,
    linear_before_reset: int = 0,
    activations: Sequence[str] = (),
    clip: float = 0.0,
) -> list[MindirValue]:
    """z = sigmoid(..), r = sigmoid(..), h' = tanh(..), h = (1 - z) h' + z h."""
    if clip or layout or not set(activations) <= {"Sigmoid", "Tanh"}:
        raise ValueError("clip, layout and activations are not supported")

    def step(given: list[MindirValue], h: MindirValue, r: _Recurrence) -> MindirValue:
        update = c.apply("Sigmoid", r.sum(given[0], r.product(h, 0)), type=h.type)
        reset = c.apply("Sigmoid", r.sum(given[1], r.product(h, 1)), type=h.type)
        if linear_before_reset:
            old = c.apply("Mul", reset, r.product(h, 2), type=h.type)
        else:
            old = r.product(c.apply("Mul", reset, h, type=h.type), 2)
        new = c.apply("Tanh", r.sum(given[2], old), type=h.type)
        change = c.apply("Sub", h, new, type=h.type)
        return r.sum(new, c.apply("Mul", update, change, type=h.type))

    return _unrolled(c, x, weight, recurrence, bias, lengths, hidden, direction, 3, step)


@converts("RNN")
def rnn(
    c: NodeConversion,
    x: MindirValue,
    weight: MindirValue,
    recurrence: MindirValue,
    bias: MindirValue | None = None,
    lengths: MindirValue | None = None,
    hidden: MindirValue | None = None,
    *,
    hidden_size: int = 0,
    direction: str = "forward",
    layout: int = 0,
    activations: Sequence[str] = (),
    clip: float = 0.0,
) -> list[MindirValue]:
    """h = tanh(..), or relu(..)."""
    names = set(activations) or {"Tanh"}
    if clip or layout or len(names) > 1 or not names <= {"Tanh", "Relu"}:
        raise ValueError("clip, layout and other activations than Tanh and Relu are not supported")
    primitive = {"Tanh": "Tanh", "Relu": "ReLU"}[names.pop()]

    def step(given: list[MindirValue], h: MindirValue, r: _Recurrence) -> MindirValue:
        return c.apply(primitive, r.sum(given[0], r.product(h, 0)), type=h.type)

    return _unrolled(c, x, weight, recurrence, bias, lengths, hidden, direction, 1, step)


class _Recurrence:
    """The matrices and biases by which the state of one direction goes into its gates."""

    def __init__(
        self,
        c: NodeConversion,
        matrices: MindirValue,
        bias: MindirValue | None,
        gates: int,
        at: int,
    ) -> None:
        self._c = c
        size = matrices.shape[2]
        self._kind = TensorType(matrices.dtype, (-1, size))
        self._matrices = [
            c.reshaped(
                _range(c, matrices, {0: (at, at + 1), 1: (gate * size, (gate + 1) * size)}),
                (size, size),
            )
            for gate in range(gates)
        ]
        self._biases: list[MindirValue | None] = [None] * gates
        if bias is not None:
            begin = gates * size
            self._biases = [
                c.reshaped(
                    _range(
                        c,
                        bias,
                        {0: (at, at + 1), 1: (begin + gate * size, begin + (gate + 1) * size)},
                    ),
                    (size,),
                )
                for gate in range(gates)
            ]

    def product(self, h: MindirValue, gate: int) -> MindirValue:
        """The state times the matrix of a gate, plus its bias."""
        found = self._c.apply("MatMul", h, self._matrices[gate], False, True, type=h.type)
        bias = self._biases[gate]
        return found if bias is None else self.sum(found, bias)

    def sum(self, a: MindirValue, b: MindirValue) -> MindirValue:
        """a + b, of the shape of a."""
        return self._c.apply("Add", a, b, type=a.type)


Step = Callable[[list[MindirValue], MindirValue, _Recurrence], MindirValue]


def _unrolled(
    c: NodeConversion,
    x: MindirValue,
    weight: MindirValue,
    recurrence: MindirValue,
    bias: MindirValue | None,
    lengths: MindirValue | None,
    hidden: MindirValue | None,
    direction: str,
    gates: int,
    step: Step,
) -> list[MindirValue]:
    """All steps of all directions, one after the other; their number has to be known."""
    _require_whole(x, lengths)
    parts = []
    for index, backward in enumerate(_directions(direction)):
        inner = _Recurrence(c, recurrence, bias, gates, index)
        first = _state(c, hidden, index, x.shape[1], recurrence)
        state = c.reshaped(first, first.shape[1:])
        given = _gate_inputs(c, x, weight, bias, gates, index)
        places = range(x.shape[0])
        outputs = {}
        for place in reversed(places) if backward else places:
            now = [_step_of(c, one, place) for one in given]
            state = outputs[place] = step(now, state, inner)
        kind = TensorType(x.dtype, (x.shape[0], *state.shape))
        ordered = [outputs[place] for place in places]
        single = TensorType(x.dtype, (1, *state.shape))
        rows = [c.apply("ExpandDims", one, 0, type=single) for one in ordered]
        stacked = c.apply("Concat", c.builder.tuple(rows), 0, type=kind)
        parts.append((stacked, c.reshaped(state, single.shape or ())))
    return _joined(c, parts)


def _gate_inputs(
    c: NodeConversion,
    x: MindirValue,
    weight: MindirValue,
    bias: MindirValue | None,
    gates: int,
    index: int,
) -> list[MindirValue]:
    """For each gate the products of all inputs with its matrix, plus its bias."""
    size = weight.shape[1] // gates
    flat = c.reshaped(x, (x.shape[0] * x.shape[1], x.shape[2]))
    found = []
    for gate in range(gates):
        rows = {0: (index, index + 1), 1: (gate * size, (gate + 1) * size)}
        matrix = c.reshaped(_range(c, weight, rows), (size, x.shape[2]))
        kind = TensorType(x.dtype, (flat.shape[0], size))
        product = c.apply("MatMul", flat, matrix, False, True, type=kind)
        if bias is not None:
            own = c.reshaped(_range(c, bias, rows), (size,))
            product = c.apply("Add", product, own, type=kind)
        found.append(c.reshaped(product, (*x.shape[:2], size)))
    return found


def _step_of(c: NodeConversion, x: MindirValue, place: int) -> MindirValue:
    return c.reshaped(_range(c, x, {0: (place, place + 1)}), x.shape[1:])


def _joined(c: NodeConversion, parts: Sequence[tuple[MindirValue, ...]]) -> list[MindirValue]:
    """The outputs with an axis of directions, and the last states of all directions."""
    sequences = []
    for outputs, *_ in parts:
        steps, batch, size = outputs.shape
        kind = TensorType(outputs.dtype, (steps, 1, batch, size))
        sequences.append(c.apply("ExpandDims", outputs, 1, type=kind))
    found = [_along(c, sequences, 1)]
    for index in range(1, len(parts[0])):
        found.append(_along(c, [one[index] for one in parts], 0))
    return found


def _along(c: NodeConversion, values: Sequence[MindirValue], axis: int) -> MindirValue:
    if len(values) == 1:
        return values[0]
    shape = list(values[0].shape)
    shape[axis] = sum(one.shape[axis] for one in values)
    kind = TensorType(values[0].dtype, tuple(shape))
    return c.apply("Concat", c.builder.tuple(values), axis, type=kind)


def _state(
    c: NodeConversion, given: MindirValue | None, index: int, batch: int, recurrence: MindirValue
) -> MindirValue:
    """The first state of one direction, 0 by default: [1, batch, size]."""
    if given is not None:
        return _range(c, given, {0: (index, index + 1)})
    return c.builder.constant(np.zeros((1, batch, recurrence.shape[2]), recurrence.dtype))


def _range(c: NodeConversion, x: MindirValue, ranges: dict[int, tuple[int, int]]) -> MindirValue:
    """Some elements along some axes."""
    shape = list(x.shape)
    for axis, (begin, end) in ranges.items():
        shape[axis] = end - begin
    if tuple(shape) == x.shape:
        return x
    steps = {axis: (begin, end, 1) for axis, (begin, end) in ranges.items()}
    return sliced(c, x, steps, TensorType(x.dtype, tuple(shape)))


def _directions(direction: str) -> list[bool]:
    """For each direction whether it goes backwards."""
    return {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]


def _require_whole(x: MindirValue, lengths: MindirValue | None) -> None:
    if lengths is not None and np.any(np.asarray(lengths.constant) != x.shape[0]):
        raise ValueError("sequences of several lengths are not supported")
    if min(x.shape) < 0:
        raise ValueError("the length or the batch of its input is open: fix it by --inputShape")
