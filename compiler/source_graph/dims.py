"""Dimensions: the sizes of an axis for several choices of the model's open dimensions.

A dimension that a file leaves open (batch, sequence) has no number. Instead of computing with
symbols, the shapes of the whole graph are computed for a few choices of the open dimensions. A
dimension is the tuple of its sizes in each: one that is the same in all of them is fixed, and two
that agree in all of them are equal. Products and quotients are those of each choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Dim = tuple[int, ...]
"""The sizes of one axis, one for each choice; the first choice is the usual one."""

Dims = tuple[Dim, ...]


def fixed(dim: Dim) -> int | None:
    """The size of an axis that does not depend on the open dimensions; None for one that does."""
    return dim[0] if len(set(dim)) == 1 else None


def product(dims: Iterable[Dim], choices: int) -> Dim:
    """The number of elements of some axes."""
    total = [1] * choices
    for dim in dims:
        total = [a * b for a, b in zip(total, dim, strict=True)]
    return tuple(total)


def usual(dims: Sequence[Dim]) -> tuple[int, ...]:
    """The shape for the usual choice."""
    return tuple(dim[0] for dim in dims)


def begins(dims: Dims, axis: int) -> bool:
    """Whether the parts of an axis lie one after the other in memory: all axes before it have a
    single element. Those behind it are fixed and not empty, or there are none before it.
    """
    before, behind = dims[:axis], dims[axis + 1 :]
    return all(fixed(dim) == 1 for dim in before) and (
        not before or all(fixed(dim) is not None and dim[0] > 0 for dim in behind)
    )
