"""Inspected weights: each with its shape and content, and with its slices over the ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, TypedDict

from onnx import TensorProto

from ...compiler.element_types import dtypes
from ...compiler.model_file.survey import ModelSurvey
from ...compiler.onnx_graph.onnx_values import tensor_bytes
from ...worker.partition.content_sample import ContentSampler

_WHOLE = 256 << 20
"""Bytes of a model up to which all weights are read whole, to tell which ranks have the same; above
it, samples are.
"""


class InspectedWeight(TypedDict, total=False):
    """A weight of a model file as `rankmesh inspect --json` prints it.

    `content` is a hash, "" where the data cannot be read. `cuts` has the number of parts along each
    axis, if the file tells. `slice` is the number of the slice, of `slices`, where ranks have files
    of their own.
    """

    name: str
    dtype: str
    shape: list[int]
    content: str
    cuts: list[int]
    slice: int
    slices: int


def listed_weights(survey: ModelSurvey) -> list[InspectedWeight]:
    """The weights of a model file, as plain data."""
    whole = sum(map(tensor_bytes, survey.weights)) <= _WHOLE
    with ContentSampler(survey.folder, survey.memory, whole) as sampler:
        return [
            _listed(record, survey.cuts.get(record.name, []), sampler) for record in survey.weights
        ]


def _listed(record: TensorProto, cuts: list[int], sampler: ContentSampler) -> InspectedWeight:
    listed: InspectedWeight = {
        "name": record.name,
        "dtype": _dtype(record),
        "shape": list(record.dims),
        "content": _content(sampler, record),
    }
    if prod(cuts) > 1:
        listed["cuts"] = cuts
    return listed


def _content(sampler: ContentSampler, record: TensorProto) -> str:
    """The hash of a tensor's content; "" where it cannot be read."""
    try:
        return sampler.sample(record).digest.hex()
    except (OSError, ValueError, TypeError, KeyError):
        return ""


def _dtype(record: TensorProto) -> str:
    try:
        return str(dtypes.from_onnx(record.data_type).name)
    except ValueError:
        known = record.data_type in TensorProto.DataType.values()
        return (
            TensorProto.DataType.Name(record.data_type).lower()
            if known
            else f"type {record.data_type}"
        )


def add_slices(described: Sequence[Mapping[str, Any]]) -> None:
    """Add to each weight of the shards, in rank order, its `slice` and the number of `slices`.

    Ranks with the same content have the same slice. Slices are numbered in the order of their first
    ranks.
    """
    for holders in _holders(described).values():
        numbers: dict[Any, int] = {}
        for rank, weight in holders.items():
            content = weight["content"] and (weight["content"], *weight["shape"]) or rank
            weight["slice"] = numbers.setdefault(content, len(numbers))
        for weight in holders.values():
            weight["slices"] = len(numbers)


def weight_lines(described: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line for each weight of a model, with the ranks of each slice."""
    holders = _holders(described)
    if len(described) == 1:
        return [f"{_typed(name, [found[0]])}{_part(found[0])}" for name, found in holders.items()]
    return [
        f"{_typed(name, list(found.values()))}: {_shared(found, len(described))}"
        for name, found in holders.items()
    ]


def _holders(described: Sequence[Mapping[str, Any]]) -> dict[str, dict[int, InspectedWeight]]:
    """The weights of all shards: by name, and by rank."""
    found: dict[str, dict[int, InspectedWeight]] = {}
    for rank, one in enumerate(described):
        for weight in one["weights"]:
            found.setdefault(weight["name"], {})[rank] = weight
    return found


def _typed(name: str, weights: Sequence[InspectedWeight]) -> str:
    kinds = dict.fromkeys(f"{weight['dtype']}{weight['shape']}" for weight in weights)
    return f"{name} {' | '.join(kinds)}"


def _part(weight: InspectedWeight) -> str:
    """The cut of a weight, as far as one file tells."""
    cuts = weight.get("cuts")
    return f", one of {prod(cuts)} slices {_along(cuts)} of {_whole(weight)}" if cuts else ""


def _shared(holders: dict[int, InspectedWeight], ranks: int) -> str:
    """The ranks of each slice, in words."""
    slices: dict[int, list[int]] = {}
    for rank, weight in holders.items():
        slices.setdefault(weight["slice"], []).append(rank)
    weights = list(holders.values())
    cuts, equal = _common_cuts(weights), len(slices) == 1
    if cuts and (equal or prod(cuts) == len(slices)):
        said = f"{prod(cuts)} slices {_along(cuts)} of {_whole(weights[0])}"
        return f"{said}, equal in content" if equal else f"{said}: {_named(slices)}"
    if equal:
        return (
            "the same on all ranks"
            if len(holders) == ranks
            else f"only on {_ranks(next(iter(slices.values())))}"
        )
    axis = _uneven_axis([weight["shape"] for weight in weights])
    where = (
        ", or weights of their own (the files do not say)"
        if axis is None
        else f" along axis {axis}"
    )
    return f"{len(slices)} slices{where}: {_named(slices)}"


def _common_cuts(weights: Sequence[InspectedWeight]) -> list[int]:
    """The cuts of the weight, if all ranks agree; else none."""
    cuts: list[int] = weights[0].get("cuts", [])
    same = all(
        weight.get("cuts") == cuts and weight["shape"] == weights[0]["shape"] for weight in weights
    )
    return cuts if same else []


def _uneven_axis(shapes: Sequence[Sequence[int]]) -> int | None:
    """The only axis in which shapes of the same rank differ, if there is one."""
    if len({len(shape) for shape in shapes}) > 1:
        return None
    differing = [axis for axis, dims in enumerate(zip(*shapes, strict=True)) if len(set(dims)) > 1]
    return differing[0] if len(differing) == 1 else None


def _along(cuts: Sequence[int]) -> str:
    axes = [str(axis) for axis, parts in enumerate(cuts) if parts > 1]
    return f"along {'axis' if len(axes) == 1 else 'axes'} {' and '.join(axes)}"


def _whole(weight: InspectedWeight) -> list[int]:
    return [dim * parts for dim, parts in zip(weight["shape"], weight["cuts"], strict=True)]


def _named(slices: dict[int, list[int]]) -> str:
    return " | ".join(_ranks(ranks) for ranks in slices.values())


def _ranks(ranks: Sequence[int]) -> str:
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {', '.join(map(str, ranks))}"
