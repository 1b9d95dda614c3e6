"""Grouped convolutions: output channels of groups that several ranks have parts of.

A rank takes the input channels of its groups out of the whole image. Where its channels begin or
end inside a group, a Conv of its own computes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ...source_graph.dims import fixed
from ..placement.factors import Axis, Factor
from ..placement.local_node import LocalNode
from ..placement.operator_node import OperatorNode
from ..placement.placements import Split


@dataclass(frozen=True, slots=True)
class _Piece:
    """Output channels, from `start` to `stop` of a rank's own, of `count` whole groups, or of one
    group's part; `group` is the first."""

    group: int
    count: int
    start: int
    stop: int


def parts_of_groups(node: OperatorNode) -> Iterator[Factor]:
    """The factor of the output channels, where groups cannot be shared out evenly."""
    groups = node.int_of("group", 1)
    channels = fixed((node.inputs[1] or ((0, 1),))[0]) or 0
    if 1 < groups < channels and groups % node.ranks:
        bias = {2: Axis(0)} if node.has_input(2) else {}
        yield Factor({1: Axis(0), **bias}, {0: Axis(1)})


def compute_pieces(local: LocalNode, weights: Split) -> None:
    """Let a rank's Conv compute the output channels of its weights."""
    groups = local.source.int_of("group", 1)
    size = (fixed((local.source.inputs[0] or ())[1]) or 0) // groups
    pieces = list(_pieces(weights.intervals(local.rank), weights.length // groups))
    operands = [
        [
            _cut(local, index, index == 0, piece, size)
            for index, value in enumerate(local.node.inputs)
            if value is not None
        ]
        for piece in pieces
    ]
    given = {name: one.value for name, one in local.node.attributes.items()}
    others = [
        local.before("Conv", values, {**given, "group": piece.count})
        for piece, values in zip(pieces[1:], operands[1:], strict=True)
    ]
    for index, value in enumerate(operands[0]):
        local.node.replace_input_with(index, value)
    local.set("group", pieces[0].count)
    if others:
        local.after("Concat", others, attributes={"axis": 1})


def _pieces(intervals: Sequence[tuple[int, int]], each: int) -> Iterator[_Piece]:
    """The pieces of some output channels, of which a group has `each`."""
    done = 0
    for start, stop in intervals:
        while start < stop:
            whole = (stop - start) // each if start % each == 0 else 0
            end = start + whole * each if whole else min(stop, start - start % each + each)
            yield _Piece(start // each, whole or 1, done, done + end - start)
            done, start = done + end - start, end


def _cut(local: LocalNode, index: int, is_image: bool, piece: _Piece, size: int) -> ir.Value:
    """The part of an input for a piece: channels of the image, or rows of weights and bias."""
    bounds, axis = (piece.start, piece.stop), 0
    if is_image:
        bounds, axis = (piece.group * size, (piece.group + piece.count) * size), 1
    ends = [local.constant(np.array([one], np.int64)) for one in (*bounds, axis)]
    return local.before("Slice", [local.input(index), *ends])
