"""Attention rules: split attention by batch, by head, and by query.

A head is never cut: a step of a factor is all queries that share one head of keys and values.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...source_graph.dims import Dims, fixed
from ..placement.factors import Axis, Factor, Factors
from ..placement.local_node import LocalNode
from ..placement.operator_node import OperatorNode
from ..placement.placements import Split, Windows
from .registry import always, factors_of

_QUERY, _KEY, _VALUE, _MASK, _PAST_KEY, _PAST_VALUE, _LENGTHS = range(7)
_RESULT, _PRESENT_KEY, _PRESENT_VALUE, _SCORES = range(4)


@dataclass(frozen=True, slots=True)
class _Heads:
    """The axis of heads in an Attention's values, and how many heads there are."""

    queries: int
    keys: int
    packed: bool
    """Whether heads and their elements are one axis, the last of three."""

    def axis(self, dims: Dims, heads: int, group: int) -> Axis:
        """The axis of `heads` heads, `group` of which belong together."""
        if not self.packed:
            return Axis(1, group)
        return Axis(2, group * ((fixed(dims[2]) or 0) // heads))


def _heads_of(node: OperatorNode) -> _Heads | None:
    """The heads of an Attention; None where they are not known."""
    queries, keys = node.inputs[_QUERY] or (), node.inputs[_KEY] or ()
    if len(queries) == 3:
        counts = node.int_of("q_num_heads"), node.int_of("kv_num_heads")
        return _Heads(*counts, True) if all(counts) else None
    own = fixed(queries[1]), fixed(keys[1])
    return _Heads(own[0], own[1], False) if own[0] and own[1] else None


def _own_heads(local: LocalNode) -> None:
    """Count the heads of this rank, where the heads are an attribute."""
    for name, index in (("q_num_heads", _QUERY), ("kv_num_heads", _KEY)):
        placement = local.strategy.inputs[index]
        if isinstance(placement, Split) and placement.axis == 2 and name in local.node.attributes:
            heads = local.source.int_of(name)
            local.set(name, heads * placement.size(local.rank) // placement.length)


@factors_of("Attention", localise=_own_heads)
def attention(node: OperatorNode) -> Factors:
    """By batch; by head; by query where no mask counts them."""
    heads = _heads_of(node)
    if heads is None:
        return Factors(())
    found = [_by_batch(node), _by_head(node, heads)]
    if heads.keys == 1 < heads.queries:
        found.append(_by_query_head(node, heads))
    if not node.int_of("is_causal") and not node.has_input(_PAST_KEY):
        found.append(_by_query(node, 1 if heads.packed else 2))
    return Factors(found)


def _by_batch(node: OperatorNode) -> Factor:
    inputs = {
        index: Axis(0)
        for index in (_QUERY, _KEY, _VALUE, _PAST_KEY, _PAST_VALUE, _LENGTHS)
        if node.has_input(index)
    }
    return Factor(inputs | _mask(node, 0, 1), {i: Axis(0) for i in range(len(node.outputs))})


def _mask(node: OperatorNode, axis: int, unit: int) -> dict[int, Axis]:
    """The mask's axis that broadcasts to `axis` of the scores, unless it has size 1 or none."""
    dims = node.inputs[_MASK] if node.has_input(_MASK) else None
    own = axis - 4 + len(dims or ())
    if dims is None or own < 0 or fixed(dims[own]) == 1:
        return {}
    return {_MASK: Axis(own, unit)}


def _by_head(node: OperatorNode, heads: _Heads) -> Factor:
    """By head of the keys, each with its group of queries."""
    group = heads.queries // heads.keys
    inputs = _query_heads(node, heads, group)
    for index in (_KEY, _VALUE):
        inputs[index] = heads.axis(node.inputs[index] or (), heads.keys, 1)
    for index in (_PAST_KEY, _PAST_VALUE):
        if node.has_input(index):
            inputs[index] = Axis(1)
    outputs = _query_outputs(node, heads, group)
    for index in (_PRESENT_KEY, _PRESENT_VALUE):
        if index < len(node.outputs):
            outputs[index] = Axis(1)
    return Factor(inputs, outputs)


def _query_heads(node: OperatorNode, heads: _Heads, group: int) -> dict[int, Axis]:
    query = heads.axis(node.inputs[_QUERY] or (), heads.queries, group)
    return {_QUERY: query, **_mask(node, 1, group)}


def _query_outputs(node: OperatorNode, heads: _Heads, group: int) -> dict[int, Axis]:
    found = {_RESULT: heads.axis(node.outputs[_RESULT] or (), heads.queries, group)}
    if len(node.outputs) > _SCORES:
        found[_SCORES] = Axis(1, group)
    return found


def _by_query_head(node: OperatorNode, heads: _Heads) -> Factor:
    """By head of the queries, where all share one head of keys and values."""
    return Factor(_query_heads(node, heads, 1), _query_outputs(node, heads, 1))


def _by_query(node: OperatorNode, axis: int) -> Factor:
    """By query, whose place does not count unless a mask says so."""
    outputs = {_RESULT: Axis(axis)}
    if len(node.outputs) > _SCORES:
        outputs[_SCORES] = Axis(2)
    return Factor({_QUERY: Axis(axis), **_mask(node, 2, 1)}, outputs)


def _own_rotated_heads(local: LocalNode) -> None:
    placement = local.strategy.inputs[0]
    heads = local.source.int_of("num_heads")
    dims = local.source.inputs[0] or ()
    packed = len(dims) == 3
    if packed and isinstance(placement, Split | Windows) and placement.axis == 2:
        local.set("num_heads", heads * placement.size(local.rank) // (fixed(dims[2]) or 1))


@factors_of("RotaryEmbedding", localise=_own_rotated_heads, shares=always)
def rotary_embedding(node: OperatorNode) -> Factors:
    """By batch, by head, and by place in the sequence, with the angles of each place."""
    dims, angles = node.inputs[0] or (), node.inputs[1] or ()
    packed = len(dims) == 3
    found = []
    for axis, place in ((0, 0), (1 if packed else 2, 1)):
        if node.has_input(3):
            others = {3: Axis(place)}
        elif place < len(angles) and fixed(angles[place]) != 1:
            others = {1: Axis(place), 2: Axis(place)}
        else:
            others = {}
        found.append(Factor({0: Axis(axis), **others}, {0: Axis(axis)}))
    heads = node.int_of("num_heads")
    if not packed:
        found.append(Factor({0: Axis(1)}, {0: Axis(1)}))
    elif heads:
        unit = Axis(2, (fixed(dims[2]) or 0) // heads)
        found.append(Factor({0: unit}, {0: unit}))
    return Factors(found, [(0,)])
