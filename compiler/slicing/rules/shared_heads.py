"""Shared heads: the heads of keys and values that each rank needs for its heads of queries.

Where N ranks do not divide the heads of keys and values, as with fewer heads than ranks, several
ranks compute the same ones: each has a window of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...source_graph.dims import fixed
from ..placement.local_node import LocalNode
from ..placement.operator_node import OperatorNode, Strategy
from ..placement.placements import Split, Windows


def needed_heads(queries: Split, each: int) -> Windows:
    """The heads of keys for a split of heads of queries, `each` of which share one."""
    parts = [queries.intervals(rank)[0] for rank in range(queries.ranks)]
    starts = tuple(start // each for start, _ in parts)
    return Windows(queries.axis, starts, tuple(-(-stop // each) for _, stop in parts))


def in_elements(heads: Windows, axis: int, width: int) -> Windows:
    """The elements of some heads, of `width` each, along `axis`."""
    starts, stops = (tuple(one * width for one in ends) for ends in (heads.starts, heads.stops))
    return Windows(axis, starts, stops)


def heads_of_keys(node: OperatorNode) -> int:
    """The heads of keys and values that a node has for more heads of queries; 0 for none."""
    if node.node.op_type in ("GroupQueryAttention", "Attention"):
        return node.int_of("kv_num_heads") or _heads_apart(node)
    repeats = _repeats(node) if node.node.op_type == "Reshape" else None
    return fixed((node.inputs[0] or ())[repeats[0]]) or 0 if repeats else 0


def _heads_apart(node: OperatorNode) -> int:
    """The heads of an Attention whose keys have an axis of them."""
    keys = node.inputs[1] if not node.node.domain else None
    return fixed(keys[1]) or 0 if keys and len(keys) == 4 else 0


def repeated_heads(node: OperatorNode, placement: Split) -> Iterator[Strategy]:
    """The strategy of a Reshape behind the repetition of heads of keys for all heads of queries.

    Before it, an axis counts the heads of keys, and the next one how often each is repeated.
    """
    repeats = _repeats(node)
    before = node.inputs[0] or ()
    if repeats and placement.axis == repeats[0] and placement.ratios == (1,):
        heads = needed_heads(placement, repeats[1])
        if min(heads.size(rank) for rank in range(heads.ranks)) < (fixed(before[heads.axis]) or 0):
            yield node.strategy({0: heads}, {0: placement})


def _repeats(node: OperatorNode) -> tuple[int, int] | None:
    """The axis of heads that a Reshape joins with their repetition, and how many there are."""
    value = node.node.inputs[0]
    maker = None if value is None else value.producer()
    return _joined(node) if maker is not None and maker.op_type == "Expand" else None


def _joined(node: OperatorNode) -> tuple[int, int] | None:
    """An axis that a Reshape joins with the next one, and the size of that."""
    before, after = node.inputs[0] or (), node.outputs[0] or ()
    if len(after) != len(before) - 1:
        return None
    axis = next((at for at, dim in enumerate(after) if dim != before[at]), len(after))
    if axis == len(after) or after[axis + 1 :] != before[axis + 2 :]:
        return None
    groups, each = fixed(before[axis]), fixed(before[axis + 1])
    if not groups or not each or fixed(after[axis]) != groups * each:
        return None
    return axis, each


def take_own_heads(local: LocalNode) -> dict[int, int]:
    """Where ranks share heads, take those of this rank behind a Reshape; the sizes before that."""
    before, after = local.strategy.inputs[0], local.strategy.outputs[0]
    repeats = _joined(local.source)  # the Expand may be in another block of a proof
    if not (isinstance(before, Windows) and isinstance(after, Split) and repeats):
        return {}
    axis, each = repeats
    start, stop = after.intervals(local.rank)[0]
    first = before.starts[local.rank] * each
    cut = (start - first, stop - first, axis)
    local.after("Slice", [local.constant(np.array([one], np.int64)) for one in cut])
    local.node.outputs[0].shape = None
    return {axis: before.size(local.rank) * each}
