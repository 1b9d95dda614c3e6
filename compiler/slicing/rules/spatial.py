"""Spatial rules: split convolutions, pooling and resizing, by batch and by channel."""

from __future__ import annotations

import numpy as np

from ...source_graph.dims import fixed
from ..placement.factors import Axis, Factor, Factors
from ..placement.local_node import LocalNode
from ..placement.operator_node import OperatorNode
from ..placement.placements import Partial, Split
from .grouped import compute_pieces, parts_of_groups
from .reduce import weigh
from .registry import factors_of
from .sliding import by_window, own_rows

_BATCH = Factor({0: Axis(0)}, {0: Axis(0)})
_CHANNEL = Factor({0: Axis(1)}, {0: Axis(1)})


def _own_groups(local: LocalNode) -> None:
    """Count this rank's groups; where channels are summed over ranks, the first adds the bias.

    Of rows, pad those at the ends of the image.
    """
    own_rows(local)
    groups = local.source.int_of("group", 1)
    channels, weights = local.strategy.inputs[:2]
    if groups > 1 and isinstance(channels, Split) and channels.axis == 1:
        local.set("group", groups * channels.size(local.rank) // channels.length)
    elif groups > 1 and isinstance(weights, Split):
        compute_pieces(local, weights)
    if isinstance(local.strategy.outputs[0], Partial) and local.rank and local.source.has_input(2):
        local.node.resize_inputs(2)  # an empty name keeps onnxruntime from its layout of images


def _convolution(node: OperatorNode, free: int, summed: int) -> Factors:
    """The factors of a convolution with groups.

    `free` and `summed` are the axes of the weights for output channels and for input channels.
    """
    groups = node.int_of("group", 1)
    weights, channels, out = node.inputs[1] or (), node.inputs[0] or (), node.outputs[0] or ()
    before, after = fixed(channels[1]), fixed(out[1])
    bias = {2: Axis(0)} if node.has_input(2) else {}
    if groups == 1:
        columns = Factor({1: Axis(free), **bias}, {0: Axis(1)})
        between = Factor({0: Axis(1), 1: Axis(summed)}, {}, "sum")
        return Factors([_BATCH, columns, between], [(0,), (1,)])
    if before is None or after is None:
        return Factors([_BATCH])
    units = before // groups, after // groups
    inputs = {0: Axis(1, units[0]), 1: Axis(0, (fixed(weights[0]) or 0) // groups)}
    if bias:
        inputs[2] = Axis(0, units[1])
    return Factors([_BATCH, Factor(inputs, {0: Axis(1, units[1])})], [(0,), (1,)])


@factors_of("Conv", localise=_own_groups, others=by_window)
def convolution(node: OperatorNode) -> Factors:
    """By batch, output channel, input channel (a sum), by group, or by rows of the image.

    Where ranks cannot have equally many groups, by output channel as well.
    """
    found = _convolution(node, 0, 1)
    return Factors([*found.factors, *parts_of_groups(node)], found.linear)


@factors_of("ConvTranspose", localise=_own_groups)
def transposed_convolution(node: OperatorNode) -> Factors:
    """As Conv; the weights have input channels first."""
    return _convolution(node, 1, 0)


@factors_of("DeformConv")
def deformable_convolution(node: OperatorNode) -> Factors:
    """By batch, with offsets and mask, and by output channel where there is one group."""
    others = [index for index in (2, 4) if node.has_input(index)]
    batch = Factor({0: Axis(0), **{index: Axis(0) for index in others}}, {0: Axis(0)})
    if node.int_of("group", 1) != 1:
        return Factors([batch])
    bias = {3: Axis(0)} if node.has_input(3) else {}
    return Factors([batch, Factor({1: Axis(0), **bias}, {0: Axis(1)})])


@factors_of("MaxPool", "AveragePool", "LpPool", localise=own_rows, others=by_window)
def pooling(node: OperatorNode) -> Factors:
    """By batch, channel, and rows of the image; the indices of MaxPool count through the whole."""
    return Factors([_BATCH, _CHANNEL] if len(node.outputs) == 1 else ())


def _own_share(local: LocalNode) -> None:
    """Weigh the mean of some rows by their share of the image."""
    placement = local.strategy.inputs[0]
    if isinstance(placement, Split) and placement.axis >= 2 and "Average" in local.node.op_type:
        weigh(local, placement)


@factors_of("GlobalAveragePool", "GlobalMaxPool", localise=_own_share)
def global_pooling(node: OperatorNode) -> Factors:
    """By batch and by channel; over rows of the image, the result of each rank is a term."""
    average = "Average" in node.node.op_type
    reduction = "sum" if average else "max"
    rows = [Factor({0: Axis(a)}, {}, reduction) for a in range(2, len(node.inputs[0] or ()))]
    return Factors([_BATCH, _CHANNEL, *rows], [(0,)] if average else [])


@factors_of("GlobalLpPool")
def global_norm(node: OperatorNode) -> Factors:
    """By batch and by channel."""
    return Factors([_BATCH, _CHANNEL])


_HALF = ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric")


def _resized_sizes(local: LocalNode) -> None:
    """Ask for the local size of the split axis."""
    placement = local.strategy.outputs[0]
    if not isinstance(placement, Split) or not local.source.has_input(3):
        return
    axes = _resized_axes(local.source)
    if placement.axis in axes:
        local.set_sizes(3, {axes.index(placement.axis): placement.size(local.rank)})


def _resized_axes(node: OperatorNode) -> list[int]:
    """The axes that the scales and sizes of a Resize are about."""
    count = len(node.inputs[0] or ())
    return [axis % count for axis in node.ints_of("axes") or range(count)]


@factors_of("Resize", localise=_resized_sizes)
def resize(node: OperatorNode) -> Factors:
    """Axes that keep their size, and those where each element is repeated."""
    before, after = node.inputs[0] or (), node.outputs[0] or ()
    cropped = node.text_of("coordinate_transformation_mode") == "tf_crop_and_resize"
    if cropped or node.text_of("keep_aspect_ratio_policy", "stretch") != "stretch":
        return Factors(())
    axes = _resized_axes(node)
    scales = node.constants.get(2) if node.has_input(2) else None
    scaled = not node.has_input(3)
    if scaled and scales is None:
        return Factors(())
    same = [axis for axis in range(len(before)) if before[axis] == after[axis]]
    if scaled:
        kept = np.ones(len(before), bool)
        kept[axes] = np.asarray(scales) == 1
        same = [axis for axis in same if kept[axis]]
    found = [Factor({0: Axis(axis)}, {0: Axis(axis)}) for axis in same]
    for axis in set(axes) - set(same):
        times = _repeats(node, axis)
        if times:
            found.append(Factor({0: Axis(axis)}, {0: Axis(axis, times)}))
    return Factors(found, [(0,)])


_REPEATING = {
    ("asymmetric", "floor"),
    *((mode, f"round_prefer_{end}") for mode in _HALF for end in ("floor", "ceil")),
}
"""Modes in which a Resize to a multiple repeats each element, so that parts do not meet."""


def _repeats(node: OperatorNode, axis: int) -> int:
    """How often a Resize repeats each element of an axis; 0 if it does something else."""
    before, after = (fixed((dims or ())[axis]) for dims in (node.inputs[0], node.outputs[0]))
    if not before or not after or after % before or node.text_of("mode", "nearest") != "nearest":
        return 0
    place = node.text_of("coordinate_transformation_mode", "half_pixel")
    rounding = node.text_of("nearest_mode", "round_prefer_floor")
    scales = node.constants.get(2) if node.has_input(2) else None
    if scales is not None and not node.has_input(3):
        if float(scales[_resized_axes(node).index(axis)]) != after // before:
            return 0
    return after // before if (place, rounding) in _REPEATING else 0


@factors_of("GridSample")
def grid_sample(node: OperatorNode) -> Factors:
    """By batch, by channel, and by place of the grid."""
    found = [Factor({0: Axis(0), 1: Axis(0)}, {0: Axis(0)}), _CHANNEL]
    for axis in range(1, len(node.inputs[1] or ()) - 1):
        found.append(Factor({1: Axis(axis)}, {0: Axis(axis + 1)}))
    return Factors(found, [(0,)])


@factors_of("RoiAlign", "MaxRoiPool")
def regions(node: OperatorNode) -> Factors:
    """By region, and by channel."""
    numbers = {2: Axis(0)} if node.has_input(2) else {}
    return Factors([Factor({1: Axis(0), **numbers}, {0: Axis(0)}), _CHANNEL])


@factors_of("Col2Im")
def blocks_to_image(node: OperatorNode) -> Factors:
    """By batch and by channel; linear, as blocks that overlap are summed."""
    block = node.constants.get(2)
    if block is None:
        return Factors((_BATCH,), [(0,)])
    channel = Factor({0: Axis(1, int(block.prod()))}, {0: Axis(1)})
    return Factors((_BATCH, channel), [(0,)])
