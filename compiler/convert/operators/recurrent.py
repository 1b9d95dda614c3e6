"""Recurrent layers: GRU and RNN step by step, as MindSpore's own layers are exported."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...element_types.value_types import TensorType
from ..mindir.values import MindirValue
from .directions import directions, first_state, joined, ranged, require_one_length
from .node_conversion import NodeConversion
from .registry import converts


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
                ranged(c, matrices, {0: (at, at + 1), 1: (gate * size, (gate + 1) * size)}),
                (size, size),
            )
            for gate in range(gates)
        ]
        self._biases: list[MindirValue | None] = [None] * gates
        if bias is not None:
            begin = gates * size
            self._biases = [
                c.reshaped(
                    ranged(
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
    require_one_length(x, lengths)
    if x.shape[0] < 0:
        raise ValueError("the length of its input is open: fix it by --inputShape")
    parts = []
    for index, backward in enumerate(directions(direction)):
        inner = _Recurrence(c, recurrence, bias, gates, index)
        first = first_state(c, hidden, index, x, recurrence)
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
    return joined(c, parts)


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
    flat = c.reshaped(x, (max(-1, x.shape[0] * x.shape[1]), x.shape[2]))
    found = []
    for gate in range(gates):
        rows = {0: (index, index + 1), 1: (gate * size, (gate + 1) * size)}
        matrix = c.reshaped(ranged(c, weight, rows), (size, x.shape[2]))
        kind = TensorType(x.dtype, (flat.shape[0], size))
        product = c.apply("MatMul", flat, matrix, False, True, type=kind)
        if bias is not None:
            own = c.reshaped(ranged(c, bias, rows), (size,))
            product = c.apply("Add", product, own, type=kind)
        found.append(c.reshaped(product, (*x.shape[:2], size)))
    return found


def _step_of(c: NodeConversion, x: MindirValue, place: int) -> MindirValue:
    return c.reshaped(ranged(c, x, {0: (place, place + 1)}), x.shape[1:])
