"""Data parallelism: splits each batch over replicas of one model, and joins their outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from ..comm.arrays import Array
from ..comm.errors import InputError
from ..comm.serving.tensor_spec import TensorSpec, dtype_named
from ..comm.text import counted
from .orchestrator import Orchestrator
from .requests.given_arrays import array_of


class DataParallel:
    """A thin face of `Orchestrator(replicas=N)`: splits a batch over the replicas and joins what
    they answer.
    """

    def __init__(
        self,
        model: str,
        replicas: int | None = None,
        *,
        devices: Sequence[int] | None = None,
        **options: Any,
    ) -> None:
        """`replicas` (by default as many as `devices` are for), `devices` and `options` are
        Orchestrator's.
        """
        self._orchestrator = Orchestrator(model, replicas=replicas, devices=devices, **options)
        self._replicas = len({rank.replica for rank in self._orchestrator.status().ranks})

    @property
    def orchestrator(self) -> Orchestrator:
        """For status, metrics and single requests."""
        return self._orchestrator

    def predict(self, *inputs: Any, timeout: float | None = -1) -> dict[str, Array]:
        """The outputs for a batch of any size, by name, row under row.

        `inputs` is a mapping from name to array, or the arrays in the model's order. Inputs that
        fit the model as they are, and scalars, go to every replica. Raises the errors of
        Orchestrator.predict, of the first part that failed.
        """
        specs = self._orchestrator.inputs()
        given = inputs[0] if len(inputs) == 1 and isinstance(inputs[0], Mapping) else inputs
        if not isinstance(given, Mapping):
            if len(given) != len(specs):
                raise InputError(
                    f"got {counted(len(given), 'input')}, expected {len(specs)}: "
                    f"{[spec.name for spec in specs]}."
                )
            given = {spec.name: array for spec, array in zip(specs, given, strict=True)}
        if given.keys() != {spec.name for spec in specs}:
            raise InputError(
                f"got the inputs {list(given)}, expected {[spec.name for spec in specs]}."
            )
        parts = parts_of(
            specs,
            {
                spec.name: array_of(spec, dtype_named(spec.dtype), given[spec.name])
                for spec in specs
            },
            self._replicas,
        )
        futures = [self._orchestrator.submit(part.inputs, timeout=timeout) for part in parts]
        try:
            return joined(parts, [future.result() for future in futures])
        finally:
            for future in futures:
                future.cancel()

    def close(self) -> None:
        """End the replicas."""
        self._orchestrator.close()

    def __enter__(self) -> DataParallel:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class ReplicaShare(NamedTuple):
    """The inputs of one request, by name, how many rows these have, and how many are the batch's;
    others are padding.

    `sent` is 0 where no input has rows.
    """

    inputs: dict[str, Array]
    sent: int
    rows: int


def parts_of(
    specs: Sequence[TensorSpec], batch: Mapping[str, Array], replicas: int
) -> list[ReplicaShare]:
    """Split a batch along dimension 0.

    Where the model's dimension 0 is fixed, each part has as many rows, the last one padded with its
    last row; where it is open, `replicas` parts as even as they divide. Inputs that fit the model
    as they are, and scalars, go to each part. InputError where inputs differ in their rows, or do
    not fit.
    """
    split = {spec.name: spec for spec in specs if _is_split(spec, batch[spec.name])}
    counts = {name: batch[name].shape[0] for name in split}
    if len(set(counts.values())) > 1:
        raise InputError(
            f"the inputs have different numbers of rows, {counts}: a batch has one per example."
        )
    if not split:
        return [ReplicaShare({spec.name: _shared(spec, batch[spec.name]) for spec in specs}, 0, 0)]
    total = next(iter(counts.values()))
    size = _part_size(list(split.values()), total, replicas)
    fixed = any(_fixed(spec) for spec in split.values())
    parts = []
    for start, end in _spans(total, size, 0 if fixed else replicas):
        rows = {name: batch[name][start:end] for name in split}
        if fixed and end - start < size:
            rows = {name: _padded(array, size) for name, array in rows.items()}
        inputs = {
            spec.name: rows[spec.name] if spec.name in rows else _shared(spec, batch[spec.name])
            for spec in specs
        }
        parts.append(ReplicaShare(inputs, size if fixed else end - start, end - start))
    return parts


def _padded(array: Array, rows: int) -> Array:
    """An array with so many rows: the last one again and again."""
    return np.concatenate([array, np.repeat(array[-1:], rows - array.shape[0], 0)])


def joined(
    parts: Sequence[ReplicaShare], results: Sequence[Mapping[str, Array]]
) -> dict[str, Array]:
    """The outputs of all parts: row under row, without those of padding.

    An output that has not as many rows as its part's inputs is the same for each part, or there is
    one per part along a new first dimension.
    """
    return {name: _joined(parts, [result[name] for result in results]) for name in results[0]}


def _joined(parts: Sequence[ReplicaShare], arrays: Sequence[Array]) -> Array:
    if len(parts) == 1 and not parts[0].sent:
        return arrays[0]
    if all(
        array.ndim and array.shape[0] == part.sent
        for part, array in zip(parts, arrays, strict=True)
    ):
        return np.concatenate(
            [array[: part.rows] for part, array in zip(parts, arrays, strict=True)]
        )
    if all(
        np.array_equal(arrays[0], array, equal_nan=array.dtype.kind in "fc") for array in arrays[1:]
    ):
        return arrays[0]
    return np.stack(arrays)


def _is_split(spec: TensorSpec, array: Array) -> bool:
    """Whether an input has rows to divide: it fits the model but for its first dimension, or that
    is open.
    """
    if not spec.shape or array.ndim != len(spec.shape):
        return False
    rest = TensorSpec(spec.name, spec.dtype, spec.shape[1:]).fits(array.shape[1:])
    return rest and array.shape[0] > 0 and (spec.shape[0] < 0 or array.shape[0] != spec.shape[0])


def _fixed(spec: TensorSpec) -> bool:
    return spec.shape is not None and spec.shape[0] >= 0


def _part_size(split: Sequence[TensorSpec], total: int, replicas: int) -> int:
    sizes = {spec.shape[0] for spec in split if spec.shape and _fixed(spec)}
    if len(sizes) > 1:
        raise InputError(
            f"the model's inputs {[spec.name for spec in split]} have different fixed first "
            "dimensions "
            f"{sorted(sizes)}: no batch fits them."
        )
    return sizes.pop() if sizes else -(-total // replicas)


def _spans(total: int, size: int, replicas: int) -> list[tuple[int, int]]:
    """The rows of each part: `size` each, or for `replicas` parts as even as they divide."""
    if not replicas:
        return [(start, min(start + size, total)) for start in range(0, total, size)]
    count = min(replicas, total)
    ends = [total * index // count for index in range(count + 1)]
    return list(zip(ends, ends[1:], strict=False))


def _shared(spec: TensorSpec, array: Array) -> Array:
    """An input for each part: as it is, or a scalar in the one-value shape of the model."""
    fits_one = (
        array.size == 1 and spec.shape is not None and all(dim in (1, -1) for dim in spec.shape)
    )
    return (
        array.reshape([1] * len(spec.shape or ()))
        if fits_one and not spec.fits(array.shape)
        else array
    )
