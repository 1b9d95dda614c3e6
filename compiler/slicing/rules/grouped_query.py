"""Grouped query attention: the rule of onnxruntime's own operator, whose query heads share keys.

A step is a group: the query heads that share a head of keys and values. With fewer groups than
ranks, or groups that do not divide evenly, the query heads are split instead. Each rank then needs
the keys and values of its own query heads. It computes no others, or takes them out of whole ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import onnx_ir as ir

from ...source_graph.dims import fixed
from ..placement.factors import Axis, Factor, Factors
from ..placement.local_node import LocalNode
from ..placement.operator_node import NodeOperand, OperatorNode, Strategy
from ..placement.placements import Partial, Placement, Split, Windows
from .contrib_attention import batch_factor, dims_of, heads_axis, present_axes, size_of
from .registry import factors_of
from .shared_heads import in_elements, needed_heads

_KEYS = 1, 2
_PAST = 3, 4
"""Positions of the inputs that have heads of keys and values."""


def _own_groups(local: LocalNode) -> None:
    """Count the heads of this rank, and take their keys and values where these are whole."""
    out = local.strategy.outputs[0]
    if not isinstance(out, Split) or out.axis != 2:
        return
    heads, groups = local.source.int_of("num_heads"), local.source.int_of("kv_num_heads")
    start, stop = (bound * heads // out.length for bound in out.intervals(local.rank)[0])
    local.set("num_heads", stop - start)
    if not _takes_groups(local):
        local.set("kv_num_heads", (stop - start) * groups // heads)
        return
    kept = _kept([head * groups // heads for head in range(start, stop)])
    local.set("kv_num_heads", len(kept))
    if groups == 1:
        return
    if isinstance(local.strategy.inputs[1], Windows):
        _repeat_groups(local, kept)
        return
    _take_groups(local, kept, range(groups))
    _give_groups(local, kept, range(-(-start * groups // heads), -(-stop * groups // heads)))


def _kept(wanted: Sequence[int]) -> Sequence[int]:
    """The groups of some query heads: each once, where equally many of these heads have it."""
    kept = sorted(set(wanted))
    if any(wanted.count(group) != wanted.count(kept[0]) for group in kept):
        return wanted
    return kept


def _takes_groups(local: LocalNode) -> bool:
    """Whether the query heads are split, and the keys whole or in windows."""
    query, key = local.strategy.inputs[:2]
    apart = local.source.inputs[1] is not None
    return apart and isinstance(query, Split) and not isinstance(key, Split)


def _repeat_groups(local: LocalNode, kept: Sequence[int]) -> None:
    """Repeat the groups of this rank that have not equally many query heads; give each once."""
    own = sorted(set(kept))
    if list(kept) == own:
        return
    _take_groups(local, kept, own)
    once = local.constant(np.array([kept.index(group) for group in own], np.int64))
    for output in (1, 2):
        if output < len(local.node.outputs) and local.source.outputs[output] is not None:
            local.after("Gather", [once], output, {"axis": 1})
            local.node.outputs[output].shape = None


def _take_groups(local: LocalNode, kept: Sequence[int], own: Sequence[int]) -> None:
    """Give the node the groups `kept` of those that this rank has."""
    groups = local.source.int_of("kv_num_heads")
    for index in (*_KEYS, *_PAST):
        dims = dims_of(local.source, index)
        if dims is None:
            continue
        axis = 2 if index in _KEYS else 1
        width = size_of(dims, axis) // groups
        places = [own.index(one) * width + place for one in kept for place in range(width)]
        taken = local.before(
            "Gather",
            [local.input(index), local.constant(np.array(places, np.int64))],
            {"axis": axis},
        )
        local.node.replace_input_with(index, taken)


def _give_groups(local: LocalNode, kept: Sequence[int], given: range) -> None:
    """Make terms of the new keys and values: each group is given by the rank of its first head."""
    groups = range(local.source.int_of("kv_num_heads"))
    places = [kept.index(group) if group in given else 0 for group in groups]
    mask = np.array([group in given for group in groups]).reshape(1, -1, 1, 1)
    for output in (1, 2):
        if output < len(local.strategy.outputs) and isinstance(
            local.strategy.outputs[output], Partial
        ):
            dtype = local.node.outputs[output].dtype or ir.DataType.FLOAT
            zero = local.constant(np.zeros((), dtype.numpy()))
            local.select(local.constant(mask), zero, output)
            order = local.constant(np.array(places, np.int64))
            local.after("Gather", [order], output, {"axis": 1})


def _by_shared_groups(
    node: OperatorNode, operand: NodeOperand, placement: Placement
) -> Iterator[Strategy]:
    """By query heads, where a rank has the keys and values of its own, and no others."""
    heads, groups = node.int_of("num_heads"), node.int_of("kv_num_heads")
    own = size_of(node.outputs[0], 2) // max(heads, 1)
    if operand.index or not isinstance(placement, Split) or placement.axis != 2:
        return
    if dims_of(node, 1) is None or not own or heads % groups or groups == 1:
        return
    steps = Axis(2, own).steps_of(placement)
    if (
        steps is None
        or steps.ratios != (1,)
        or not any(one * groups % heads for one in steps.bounds)
    ):
        return
    needed = needed_heads(steps, heads // groups)
    cache = in_elements(needed, 1, 1)
    inputs: dict[int, Placement] = {0: placement}
    for index in _KEYS:
        inputs[index] = in_elements(needed, 2, size_of(dims_of(node, index), 2) // groups)
    inputs |= {index: cache for index in _PAST if dims_of(node, index) is not None}
    outputs = {index: cache for index in (1, 2) if node.dims(NodeOperand(index, True)) is not None}
    yield node.strategy(inputs, {0: placement, **outputs})


@factors_of(
    "com.microsoft::GroupQueryAttention",
    localise=_own_groups,
    others=_by_shared_groups,
    shares_inputs=True,
)
def group_query_attention(node: OperatorNode) -> Factors:
    """By groups of query heads that share keys and values, by query heads, and by batch."""
    heads, groups = node.int_of("num_heads"), node.int_of("kv_num_heads")
    out = size_of(node.outputs[0], 2)
    scales = [dim for index in (12, 13) for dim in dims_of(node, index) or ()]
    if not out or heads % groups or any(fixed(dim) != 1 for dim in scales):
        return Factors(())
    own, many = out // heads, heads // groups
    joined = dims_of(node, 1) is None
    found = [_by_groups(node, own, many)]
    if groups % node.ranks and many > 1 and not joined:
        found.append(_by_query_heads(node, own))
    inputs = {index: 0 for index in (0, 1, 2, 3, 4, 5, 9, 10, 16)}
    return Factors([*found, batch_factor(node, inputs, dict.fromkeys(range(4), 0))])


def _by_groups(node: OperatorNode, own: int, many: int) -> Factor:
    """A step is a group: its query heads, and its one head of keys and values."""
    heads, groups = node.int_of("num_heads"), node.int_of("kv_num_heads")
    if dims_of(node, 1) is None:
        inputs = {0: Axis(2, own, (many, 1, 1))}
    else:
        inputs = {0: Axis(2, many * own), 1: Axis(2, own), 2: Axis(2, own)}
    for index in (3, 4):
        inputs |= heads_axis(node, index, 1, groups)
    for index, axis in ((10, 1), (11, 0)):
        if size_of(dims_of(node, index), axis) == heads > 1:
            inputs[index] = Axis(axis, many)
    outputs = {0: Axis(2, many * own), 1: Axis(1), 2: Axis(1), 3: Axis(1, many)}
    return Factor(inputs, present_axes(node, outputs))


def _by_query_heads(node: OperatorNode, own: int) -> Factor:
    """A step is a query head; the new keys and values are terms.

    With one head of keys and values, every rank has it and gives it whole.
    """
    heads, groups = node.int_of("num_heads"), node.int_of("kv_num_heads")
    inputs = {0: Axis(2, own)}
    inputs |= heads_axis(node, 10, 1, heads) | heads_axis(node, 11, 0, heads)
    outputs = present_axes(node, {0: Axis(2, own), 3: Axis(1)})
    return Factor(inputs, outputs, "sum" if groups > 1 else "")
