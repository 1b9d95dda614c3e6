"""A batch in parts, one per replica, and their outputs as one again (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..comm.errors import InputError
from ..comm.serving.tensor_spec import TensorSpec

Array = NDArray[Any]


class Part(NamedTuple):
    """The inputs of one request, by name, how many rows these have, and how many are the batch's; others are padding.

    `sent` is 0 where no input has rows.
    """

    inputs: dict[str, Array]
    sent: int
    rows: int


def parts_of(specs: Sequence[TensorSpec], batch: Mapping[str, Array], replicas: int) -> list[Part]:
    """Split a batch along dimension 0.

    Where the model's dimension 0 is fixed, each part has as many rows, the last one padded with its last row; where it
    is open, `replicas` parts as even as they divide. Inputs that fit the model as they are, and scalars, go to each
    part. InputError where inputs differ in their rows, or do not fit.
    """
    split = {spec.name: spec for spec in specs if _is_split(spec, batch[spec.name])}
    counts = {name: batch[name].shape[0] for name in split}
    if len(set(counts.values())) > 1:
        raise InputError(f"the inputs have different numbers of rows, {counts}: a batch has one per example.")
    if not split:
        return [Part({spec.name: _shared(spec, batch[spec.name]) for spec in specs}, 0, 0)]
    total = next(iter(counts.values()))
    size = _part_size(list(split.values()), total, replicas)
    shared = {spec.name: _shared(spec, batch[spec.name]) for spec in specs if spec.name not in split}
    fixed = any(_fixed(spec) for spec in split.values())
    parts = []
    for start, end in _spans(total, size, 0 if fixed else replicas):
        rows = {name: batch[name][start:end] for name in split}
        if fixed and end - start < size:
            rows = {name: np.concatenate([array, np.repeat(array[-1:], size - (end - start), 0)])
                    for name, array in rows.items()}
        parts.append(Part({spec.name: rows[spec.name] if spec.name in rows else shared[spec.name] for spec in specs},
                          size if fixed else end - start, end - start))
    return parts


def joined(parts: Sequence[Part], results: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """The outputs of all parts: row under row, without those of padding.

    An output that has not as many rows as its part's inputs is the same for each part, or there is one per part along a
    new first dimension.
    """
    return {name: _joined(parts, [result[name] for result in results]) for name in results[0]}


def _joined(parts: Sequence[Part], arrays: Sequence[Array]) -> Array:
    if len(parts) == 1 and not parts[0].sent:
        return arrays[0]
    if all(array.ndim and array.shape[0] == part.sent for part, array in zip(parts, arrays, strict=True)):
        return np.concatenate([array[:part.rows] for part, array in zip(parts, arrays, strict=True)])
    if all(np.array_equal(arrays[0], array, equal_nan=array.dtype.kind in "fc") for array in arrays[1:]):
        return arrays[0]
    return np.stack(arrays)


def _is_split(spec: TensorSpec, array: Array) -> bool:
    """Whether an input has rows to divide: it fits the model but for its first dimension, or that is open."""
    if not spec.shape or array.ndim != len(spec.shape):
        return False
    rest = TensorSpec(spec.name, spec.dtype, spec.shape[1:]).fits(array.shape[1:])
    return rest and array.shape[0] > 0 and (spec.shape[0] < 0 or array.shape[0] != spec.shape[0])


def _fixed(spec: TensorSpec) -> bool:
    return spec.shape is not None and spec.shape[0] >= 0


def _part_size(split: Sequence[TensorSpec], total: int, replicas: int) -> int:
    sizes = {spec.shape[0] for spec in split if spec.shape and _fixed(spec)}
    if len(sizes) > 1:
        raise InputError(f"the model's inputs {[spec.name for spec in split]} have different fixed first dimensions "
                         f"{sorted(sizes)}: no batch fits them.")
    return sizes.pop() if sizes else -(-total // replicas)


def _spans(total: int, size: int, replicas: int) -> list[tuple[int, int]]:
    """The rows of each part: `size` each, or for `replicas` parts as even as they divide."""
    if not replicas:
        return [(start, min(start + size, total)) for start in range(0, total, size)]
    count = min(replicas, total)
    ends = [total * index // count for index in range(count + 1)]
    return list(zip(ends, ends[1:], strict=False))


def _shared(spec: TensorSpec, array: Array) -> Array:
    """What goes to each part: as it is, or a scalar in the shape of one value that the model wants."""
    fits_one = array.size == 1 and spec.shape is not None and all(dim in (1, -1) for dim in spec.shape)
    return array.reshape([1] * len(spec.shape or ())) if fits_one and not spec.fits(array.shape) else array
