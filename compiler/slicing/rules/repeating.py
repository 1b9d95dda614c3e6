"""Repeating rules: split operators that repeat an axis, or deal its elements out to several axes.

A split axis that is repeated has its segments repeated (see placements.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from ...source_graph.dims import fixed
from ..placement.factors import Axis, Factor, Factors
from ..placement.local_node import LocalNode
from ..placement.operator_node import NodeOperand, OperatorNode, Strategy
from ..placement.placements import Partial, Placement, Split, split
from .registry import factors_of, strategies_of


def repeated(placement: Split, times: int) -> Split | None:
    """The split of an axis that has the elements of the split one `times` times in a row."""
    return split(placement.axis, placement.bounds, placement.ratios * times)


def unrepeated(placement: Split, times: int) -> Split | None:
    """The split of an axis that is repeated to give the split one; None where it differs."""
    count, rest = divmod(len(placement.ratios), times)
    ratios = placement.ratios[:count]
    if rest or ratios * times != placement.ratios:
        return None
    return split(placement.axis, placement.bounds, ratios)


def _own_repeats(local: LocalNode) -> None:
    """An axis of one element is repeated as often as this rank has elements."""
    before, after = local.strategy.inputs[0], local.strategy.outputs[0]
    if isinstance(after, Split) and not isinstance(before, Split):
        local.set_sizes(1, local.local_sizes(after))


@strategies_of("Tile", localise=_own_repeats)
def tile(node: OperatorNode, operand: NodeOperand, placement: Placement) -> Iterator[Strategy]:
    """Every axis; an axis of one element may be whole."""
    before, after = node.inputs[0], node.outputs[0]
    if operand.index and not operand.is_output or before is None or after is None:
        return
    if isinstance(placement, Partial):
        yield node.strategy({0: placement}, {0: placement})
    elif isinstance(placement, Split):
        own, other = fixed(before[placement.axis]), fixed(after[placement.axis])
        if own == 1:
            yield node.strategy({}, {0: placement})
        elif own and other:
            turned = unrepeated if operand.is_output else repeated
            found = turned(placement, other // own)
            if found is not None:
                parts = (found, placement) if operand.is_output else (placement, found)
                yield node.strategy({0: parts[0]}, {0: parts[1]})


def _blocks(node: OperatorNode, deep: int) -> Factors:
    """Batch, rows, columns and channels, where input (0) or output (1) `deep` has the depth.

    The depth is the channels once for each place of a block. In the mode CRD it is all places of a
    block once for each channel.
    """
    size = node.int_of("blocksize")
    pairs = [(Axis(0), Axis(0)), *((Axis(axis), Axis(axis, size)) for axis in (2, 3))]
    if node.text_of("mode", "DCR") == "CRD":
        pairs.append((Axis(1, size * size), Axis(1)))
    else:
        pairs.append((Axis(1, 1, (1,) * (size * size)), Axis(1)))
    found = [Factor({0: pair[deep]}, {0: pair[1 - deep]}) for pair in pairs]
    return Factors(found, [(0,)], ("sum", "max"))


@factors_of("DepthToSpace")
def depth_to_space(node: OperatorNode) -> Factors:
    """The depth is in the input."""
    return _blocks(node, 0)


@factors_of("SpaceToDepth")
def space_to_depth(node: OperatorNode) -> Factors:
    """The depth is in the output."""
    return _blocks(node, 1)
