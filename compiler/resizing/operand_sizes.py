"""Operand sizes: sizes of two inputs that an operator needs equal."""

from __future__ import annotations

from collections.abc import Iterator

from .resized_node import ResizedNode

Size = tuple[int, int, int]
"""An input, one of its axes, and the size there."""

_AXES = {
    "ConvTranspose": ((0, 1, 1, 0),),
    "InstanceNormalization": ((0, 1, 1, 0),),
    "LayerNormalization": ((0, -1, 1, -1),),
    "RMSNormalization": ((0, -1, 1, -1),),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), ((0, 2, 1, 2), (0, 1, 4, 0), (0, 1, 5, 1))),
}
"""Input, axis, other input, its axis, whose sizes are equal."""


def equal_sizes(node: ResizedNode) -> Iterator[tuple[Size, Size]]:
    """Pairs of sizes that have to be equal."""
    if node.operator == "Conv":
        yield from _pair(node, (0, 1), (1, 1), node.int_of("group", 1))
    for index, axis, other, place in _AXES.get(node.operator, ()):
        yield from _pair(node, (index, axis), (other, place), 1)


def _pair(
    node: ResizedNode, one: tuple[int, int], other: tuple[int, int], times: int
) -> Iterator[tuple[Size, Size]]:
    mine, theirs = node.after(one[0]), node.after(other[0])
    if mine and theirs:
        yield (*one, mine[one[1]]), (*other, theirs[other[1]] * times)
