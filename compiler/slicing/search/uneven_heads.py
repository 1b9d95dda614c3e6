"""Uneven heads: tell whether ranks divide the heads of a model's attention evenly."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ..placement.placements import Split
from ..planning.propagate import Candidates
from ..rules.shared_heads import heads_of_keys

_LONG = 10
"""Elements for each rank from which an axis without heads is divided nearly evenly."""


def has_uneven_heads(found: Candidates, ranks: int) -> bool:
    """Whether some rank gets more heads of queries, keys or values than others, or shares them."""
    shared = any(heads_of_keys(node) % ranks for node in found.nodes.values())
    return shared or any(
        is_uneven(one) and one.length >= _LONG * ranks for one in weight_splits(found)
    )


def weight_splits(found: Candidates) -> Iterator[Split]:
    """The splits of weights among the candidates.

    Of those of one axis, the ones with the most segments count: where a matrix has queries, keys
    and values side by side, ranks have heads of each, and the split between the three is none of
    heads.
    """
    splits: dict[tuple[str, int], dict[Split, None]] = defaultdict(dict)
    for name, strategies in found.strategies.items():
        values = found.nodes[name].node.inputs
        for strategy in strategies:
            for value, one in zip(values, strategy.inputs, strict=True):
                if value is not None and value.is_initializer() and isinstance(one, Split):
                    splits[str(value.name), one.axis][one] = None
    for some in splits.values():
        most = max(len(one.ratios) for one in some)
        yield from (one for one in some if len(one.ratios) == most)


def is_uneven(one: Split) -> bool:
    """Whether a part of an axis is far larger than 1/N."""
    return one.largest * one.ranks > 1.1 * one.length
