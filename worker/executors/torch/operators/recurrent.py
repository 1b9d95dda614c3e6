"""Recurrent layers: RNN, GRU and LSTM, of one or both directions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch.nn import functional

from ..operator_node import TorchNode
from ..registry import Compute, computes

Activation = Callable[[torch.Tensor], torch.Tensor]
Step = Callable[[torch.Tensor, Sequence[torch.Tensor]], Sequence[torch.Tensor]]
"""Takes the products of one step and the states before it; gives the states after it."""

_PLAIN: dict[str, Activation] = {
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "softplus": functional.softplus,
    "softsign": functional.softsign,
    "tanh": torch.tanh,
}
_DEFAULTS = {
    "affine": (1.0, 0.0),
    "elu": (1.0, 0.0),
    "hardsigmoid": (0.2, 0.5),
    "leakyrelu": (0.01, 0.0),
    "scaledtanh": (1.0, 1.0),
    "thresholdedrelu": (1.0, 0.0),
}


def _activation(name: str, alpha: float, beta: float) -> Activation:
    """An activation by ONNX's name in small letters."""
    made: dict[str, Activation] = {
        **_PLAIN,
        "affine": lambda x: alpha * x + beta,
        "elu": partial(functional.elu, alpha=alpha),
        "hardsigmoid": lambda x: torch.clamp(alpha * x + beta, 0, 1),
        "leakyrelu": partial(functional.leaky_relu, negative_slope=alpha),
        "scaledtanh": lambda x: alpha * torch.tanh(beta * x),
        "thresholdedrelu": lambda x: torch.where(x > alpha, x, torch.zeros_like(x)),
    }
    if name not in made:
        raise ValueError(f"activation {name}, expected one of {', '.join(sorted(made))}")
    return made[name]


def _activations(node: TorchNode, defaults: Sequence[str]) -> list[list[Activation]]:
    """The activations of each direction."""
    both = node.text("direction", "forward") == "bidirectional"
    names = node.texts("activations") or list(defaults) * (1 + both)
    alphas = iter(node.reals("activation_alpha") or ())
    betas = iter(node.reals("activation_beta") or ())
    made = []
    for name in map(str.lower, names):
        alpha, beta = _DEFAULTS.get(name, (0.0, 0.0))
        if name in _DEFAULTS:
            alpha = next(alphas, alpha)
        if name in ("affine", "hardsigmoid", "scaledtanh"):
            beta = next(betas, beta)
        made.append(_activation(name, alpha, beta))
    count = len(defaults)
    return [made[at : at + count] for at in range(0, len(made), count)]


class Recurrence:
    """The common part of RNN, GRU and LSTM: directions, layout, lengths of sequences, clipping."""

    def __init__(self, node: TorchNode) -> None:
        self._direction = node.text("direction", "forward")
        self._by_batch = bool(node.integer("layout"))
        self._clip = node.real("clip") if node.has("clip") else None

    def clipped(self, x: torch.Tensor) -> torch.Tensor:
        """The input of an activation, within the limits of `clip`."""
        return x if self._clip is None else torch.clamp(x, -self._clip, self._clip)

    def run(
        self,
        x: torch.Tensor,
        lengths: Any,
        states: Sequence[Any],
        size: int,
        layers: Sequence[tuple[Callable[[torch.Tensor], torch.Tensor], Step]],
    ) -> tuple[torch.Tensor, ...]:
        """The outputs of all steps and the last states; a layer has products and steps."""
        x = x.transpose(0, 1) if self._by_batch else x
        shape = (len(layers), x.shape[1], size)
        firsts = [
            x.new_zeros(shape) if one is None else one.transpose(0, 1) if self._by_batch else one
            for one in states
        ]
        rows, lasts = [], []
        for at, (project, step) in enumerate(layers):
            backwards = self._direction == "reverse" or at == 1
            turned = _turned(x, lengths) if backwards else x
            made, last = _steps(project(turned), lengths, [one[at] for one in firsts], step)
            rows.append(_turned(made, lengths) if backwards else made)
            lasts.append(last)
        outputs = torch.stack(rows, 1)
        ends = [torch.stack(one) for one in zip(*lasts, strict=True)]
        if self._by_batch:
            return outputs.permute(2, 0, 1, 3), *(one.transpose(0, 1) for one in ends)
        return outputs, *ends


def _steps(
    products: torch.Tensor, lengths: Any, states: Sequence[torch.Tensor], step: Step
) -> tuple[torch.Tensor, Sequence[torch.Tensor]]:
    """Each step's output, and the last states; a sequence that has ended keeps its state."""
    rows = []
    for at, product in enumerate(products.unbind()):
        after = step(product, states)
        if lengths is None:
            states = after
            rows.append(after[0])
            continue
        runs = (lengths > at)[:, None]
        pairs = zip(after, states, strict=True)
        states = [torch.where(runs, new, old) for new, old in pairs]
        rows.append(torch.where(runs, after[0], torch.zeros_like(after[0])))
    if not rows:
        return products.new_zeros(0, *states[0].shape), states
    return torch.stack(rows), states


def _turned(x: torch.Tensor, lengths: Any) -> torch.Tensor:
    """Sequences from their ends to their beginnings."""
    if lengths is None:
        return x.flip(0)
    steps = torch.arange(x.shape[0], device=x.device)[:, None]
    ends = lengths.to(torch.int64)[None, :]
    places = torch.where(steps < ends, ends - 1 - steps, steps)
    return x[places, torch.arange(x.shape[1], device=x.device)]


def _optional(given: Sequence[Any], count: int) -> list[Any]:
    return [*given, *(None,) * (count - len(given))]


def _project(w: torch.Tensor, bias: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: functional.linear(x, w, bias)


def _biases(b: Any, at: int) -> tuple[Any, Any]:
    """The biases of the inputs and of the states; None where there are none."""
    return (None, None) if b is None else tuple(b[at].chunk(2))


@computes("RNN")
def rnn(node: TorchNode) -> Compute:
    """A layer whose state is an activation of input and state."""
    common, functions = Recurrence(node), _activations(node, ["tanh"])

    def run(x: torch.Tensor, w: Any, r: Any, *given: Any) -> tuple[torch.Tensor, ...]:
        b, lengths, first = _optional(given, 3)

        def layers() -> Iterator[Any]:
            for at in range(w.shape[0]):
                of_input, of_state = _biases(b, at)
                yield _project(w[at], of_input), partial(step, at, of_state)

        def step(at: int, bias: Any, product: Any, states: Any) -> Any:
            total = product + functional.linear(states[0], r[at], bias)
            return (functions[at][0](common.clipped(total)),)

        return common.run(x, lengths, [first], r.shape[-1], list(layers()))

    return run


@computes("GRU")
def gru(node: TorchNode) -> Compute:
    """A layer whose state is kept and replaced in parts, by an update and a reset gate."""
    common, functions = Recurrence(node), _activations(node, ["sigmoid", "tanh"])
    after = bool(node.integer("linear_before_reset"))

    def run(x: torch.Tensor, w: Any, r: Any, *given: Any) -> tuple[torch.Tensor, ...]:
        b, lengths, first = _optional(given, 3)
        size = r.shape[-1]

        def layers() -> Iterator[Any]:
            for at in range(w.shape[0]):
                of_input, of_state = _biases(b, at)
                yield _project(w[at], of_input), partial(step, at, of_state)

        def step(at: int, bias: Any, product: Any, states: Any) -> Any:
            gate, hidden = functions[at]
            (state,) = states
            low, high = (None, None) if bias is None else (bias[: 2 * size], bias[2 * size :])
            both = product[:, : 2 * size] + functional.linear(state, r[at][: 2 * size], low)
            update, reset = gate(common.clipped(both)).chunk(2, -1)
            if after:
                kept = reset * functional.linear(state, r[at][2 * size :], high)
            else:
                kept = functional.linear(reset * state, r[at][2 * size :], high)
            new = hidden(common.clipped(product[:, 2 * size :] + kept))
            return ((1 - update) * new + update * state,)

        return common.run(x, lengths, [first], size, list(layers()))

    return run


@computes("LSTM")
def lstm(node: TorchNode) -> Compute:
    """A layer with a cell, which gates fill, empty and show; peepholes let gates see the cell."""
    common, functions = Recurrence(node), _activations(node, ["sigmoid", "tanh", "tanh"])
    coupled = bool(node.integer("input_forget"))

    def run(x: torch.Tensor, w: Any, r: Any, *given: Any) -> tuple[torch.Tensor, ...]:
        b, lengths, first, first_cell, peepholes = _optional(given, 5)

        def layers() -> Iterator[Any]:
            for at in range(w.shape[0]):
                bias = None if b is None else sum(b[at].chunk(2))
                yield _project(w[at], bias), partial(step, at)

        def step(at: int, product: Any, states: Any) -> Any:
            gate, new, shown = functions[at]
            hidden, cell = states
            total = product + functional.linear(hidden, r[at])
            i, o, f, c = total.chunk(4, -1)
            seen = (0, 0, 0) if peepholes is None else peepholes[at].chunk(3)
            i = gate(common.clipped(i + seen[0] * cell))
            f = 1 - i if coupled else gate(common.clipped(f + seen[2] * cell))
            cell = f * cell + i * new(common.clipped(c))
            o = gate(common.clipped(o + seen[1] * cell))
            return o * shown(cell), cell

        return common.run(x, lengths, [first, first_cell], r.shape[-1], list(layers()))

    return run
