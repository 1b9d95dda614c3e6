"""Views, elementwise operators and normalisations: the sizes that partners and constants fix."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from math import prod

from ..source_graph.contrib_node import ContribNode
from .size_pair import Pairs, PairsOf, SizePair, axes_of, broadcast, broadcast_to, exactly


def _together(one: ContribNode) -> Pairs:
    """All inputs are repeated until they have one shape."""
    for first, second in combinations(range(len(one.node.inputs)), 2):
        yield from broadcast(one.shape(first), one.shape(second))


def _quantised_pair(one: ContribNode) -> Pairs:
    yield from broadcast(one.shape(0), one.shape(3))


def _onto_first(one: ContribNode) -> Pairs:
    yield from broadcast_to(one.shape(0), one.shape(1))


def _last_axes(one: ContribNode) -> Pairs:
    """Scales, biases and skipped values that have the last axis of the first input."""
    given = one.shape(0)
    for index in range(1, len(one.node.inputs)):
        other = one.shape(index)
        if given and other:
            yield SizePair(given[-1], other[-1])


def _normalised(one: ContribNode) -> Pairs:
    """The scale and the bias have the axes that are normalised."""
    for index in range(1, len(one.node.inputs)):
        yield from broadcast_to(one.shape(0), one.shape(index))


def _channels(one: ContribNode) -> Pairs:
    """A number for each channel, such as a mean."""
    image = one.shape(0)
    for index in range(1, len(one.node.inputs)):
        given = one.shape(index)
        if image and given and len(image) > 1:
            yield SizePair(image[1], given[0])


def _concatenated(one: ContribNode) -> Pairs:
    first = one.shape(0)
    if not first:
        return
    axis = one.int_of("axis") % len(first)
    for index in range(1, len(one.node.inputs)):
        other = one.shape(index)
        if other and len(other) == len(first):
            yield from exactly(first[:axis] + first[axis + 1 :], other[:axis] + other[axis + 1 :])


def _reshaped(one: ContribNode) -> Pairs:
    """The elements, where the target lists all sizes; 0 is the size of the input itself."""
    given, target = one.shape(0), one.values.get(one.name(1))
    if given is None or target is None or (target < 0).any():
        return
    sizes = [int(size) for size in target.reshape(-1)]
    if not one.int_of("allowzero"):
        if any(size == 0 and axis >= len(given) for axis, size in enumerate(sizes)):
            return
        sizes = [size or given[axis] for axis, size in enumerate(sizes)]
    yield SizePair(prod(given), prod(sizes))


def _expanded(one: ContribNode) -> Pairs:
    target = one.values.get(one.name(1))
    if target is not None:
        yield from broadcast(one.shape(0), tuple(int(size) for size in target.reshape(-1)))


def _split(one: ContribNode) -> Pairs:
    given, listed = one.shape(0), one.node.attributes.get("split")
    sizes = one.values.get(one.name(1)) if listed is None else listed.as_ints()
    if given and sizes is not None:
        yield SizePair(given[one.int_of("axis")], int(sum(sizes)))


def _squeezed(one: ContribNode) -> Pairs:
    given = one.shape(0)
    for axis in axes_of(one, 1) if given else ():
        assert given is not None
        yield SizePair(given[axis], 1)


def _scattered(one: ContribNode) -> Pairs:
    data, places, updates = one.shape(0), one.shape(1), one.shape(2)
    if data and places and updates:
        yield from exactly(updates, (*places[:-1], *data[places[-1] :]))


def _scaled(one: ContribNode) -> Pairs:
    """A scale for each place of an axis."""
    given, scale = one.shape(0), one.shape(1)
    if given and scale and len(scale) == 1 and scale[0] > 1:
        yield SizePair(given[one.int_of("axis", 1)], scale[0])


_ELEMENTWISE = """Add Sub Mul Div Pow Mod Where Max Min Mean Sum And Or Xor Equal Greater Less
GreaterOrEqual LessOrEqual BitShift BitwiseAnd BitwiseOr BitwiseXor""".split()

VIEWS: Mapping[str, PairsOf] = {
    **dict.fromkeys(_ELEMENTWISE, _together),
    **dict.fromkeys(("QLinearAdd", "QLinearMul"), _quantised_pair),
    "PRelu": _onto_first,
    **dict.fromkeys(("BiasGelu", "FastGelu", "BiasSplitGelu", "BiasAdd"), _last_axes),
    **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), _last_axes),
    **dict.fromkeys(
        "LayerNormalization RMSNormalization SimplifiedLayerNormalization".split(), _normalised
    ),
    **dict.fromkeys(("BatchNormalization", "InstanceNormalization"), _channels),
    "Concat": _concatenated,
    "Reshape": _reshaped,
    "Expand": _expanded,
    "Split": _split,
    "Squeeze": _squeezed,
    "ScatterND": _scattered,
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), _scaled),
}
"""The pairs of each operator."""
