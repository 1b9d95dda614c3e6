"""Which rank has which slice of each weight, from what the shards of all ranks hold."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

Weight = dict[str, Any]


def add_slices(described: Sequence[dict[str, Any]]) -> None:
    """Add to each weight of the described shards, in rank order, the number of its `slice`, and of how many: `slices`.

    Ranks with the same content have the same slice; slices are numbered in the order of their first ranks.
    """
    for holders in _holders(described).values():
        numbers: dict[Any, int] = {}
        for rank, weight in holders.items():
            content = weight["content"] and (weight["content"], *weight["shape"]) or rank
            weight["slice"] = numbers.setdefault(content, len(numbers))
        for weight in holders.values():
            weight["slices"] = len(numbers)


def weight_lines(described: Sequence[dict[str, Any]]) -> list[str]:
    """One line for each weight of a model, with which ranks have which slice."""
    holders = _holders(described)
    if len(described) == 1:
        return [f"{_typed(name, [found[0]])}{_part(found[0])}" for name, found in holders.items()]
    return [f"{_typed(name, list(found.values()))}: {_shared(found, len(described))}"
            for name, found in holders.items()]


def _holders(described: Sequence[dict[str, Any]]) -> dict[str, dict[int, Weight]]:
    """The weights of all shards: by name, and by rank."""
    found: dict[str, dict[int, Weight]] = {}
    for rank, one in enumerate(described):
        for weight in one["weights"]:
            found.setdefault(weight["name"], {})[rank] = weight
    return found


def _typed(name: str, weights: Sequence[Weight]) -> str:
    kinds = dict.fromkeys(f"{weight['dtype']}{weight['shape']}" for weight in weights)
    return f"{name} {' | '.join(kinds)}"


def _part(weight: Weight) -> str:
    """What one file tells of how its weight was cut."""
    cuts = weight.get("cuts")
    return f", one of {prod(cuts)} slices {_along(cuts)} of {_whole(weight)}" if cuts else ""


def _shared(holders: dict[int, Weight], ranks: int) -> str:
    """Which ranks have which slice, in words."""
    slices: dict[int, list[int]] = {}
    for rank, weight in holders.items():
        slices.setdefault(weight["slice"], []).append(rank)
    weights = list(holders.values())
    cuts, equal = _common_cuts(weights), len(slices) == 1
    if cuts and (equal or prod(cuts) == len(slices)):
        said = f"{prod(cuts)} slices {_along(cuts)} of {_whole(weights[0])}"
        return f"{said}, equal in content" if equal else f"{said}: {_named(slices)}"
    if equal:
        return "the same on all ranks" if len(holders) == ranks else f"only on {_ranks(next(iter(slices.values())))}"
    axis = _uneven_axis([weight["shape"] for weight in weights])
    where = ", or weights of their own (the files do not say)" if axis is None else f" along axis {axis}"
    return f"{len(slices)} slices{where}: {_named(slices)}"


def _common_cuts(weights: Sequence[Weight]) -> list[int]:
    """How the weight was cut, if all ranks say the same; else nothing."""
    cuts: list[int] = weights[0].get("cuts", [])
    same = all(weight.get("cuts") == cuts and weight["shape"] == weights[0]["shape"] for weight in weights)
    return cuts if same else []


def _uneven_axis(shapes: Sequence[Sequence[int]]) -> int | None:
    """The one axis in which shapes of the same rank differ, if there is just one."""
    if len({len(shape) for shape in shapes}) > 1:
        return None
    differing = [axis for axis, dims in enumerate(zip(*shapes, strict=True)) if len(set(dims)) > 1]
    return differing[0] if len(differing) == 1 else None


def _along(cuts: Sequence[int]) -> str:
    axes = [str(axis) for axis, parts in enumerate(cuts) if parts > 1]
    return f"along {'axis' if len(axes) == 1 else 'axes'} {' and '.join(axes)}"


def _whole(weight: Weight) -> list[int]:
    return [dim * parts for dim, parts in zip(weight["shape"], weight["cuts"], strict=True)]


def _named(slices: dict[int, list[int]]) -> str:
    return " | ".join(_ranks(ranks) for ranks in slices.values())


def _ranks(ranks: Sequence[int]) -> str:
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {', '.join(map(str, ranks))}"
