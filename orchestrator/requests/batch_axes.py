"""Batch axes: find the rows of inputs and outputs, join requests row under row, split outputs."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from ...comm.arrays import Array
from ...comm.errors import ModelError, UsageError
from ...comm.serving.tensor_spec import TensorSpec


@dataclass(frozen=True, slots=True)
class BatchAxes:
    """For each input, in the model's order, whether its dimension 0 counts examples; the names of
    such outputs.
    """

    inputs: tuple[bool, ...]
    outputs: frozenset[str]

    @classmethod
    def of(
        cls,
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
        declared: Sequence[str] | None = None,
    ) -> BatchAxes:
        """Those that are `declared`, or every input whose dimension 0 is open; UsageError where
        that cannot be.

        An output whose rank is unknown is taken for one with a row per example, which is checked
        when it is there.
        """
        names = (
            _declared(inputs, declared)
            if declared is not None
            else {one.name for one in inputs if _open(one)}
        )
        rowed = frozenset(one.name for one in outputs if one.shape is None or _open(one))
        if not names or not rowed:
            word, specs = ("output", outputs) if names else ("input", inputs)
            raise UsageError(
                f"requests cannot be batched: no {word} of the model has an open first dimension "
                f"({_listed(specs)}). Export it with dimension 0 dynamic, or leave batching out."
            )
        return cls(tuple(one.name in names for one in inputs), rowed)

    def rows_and_kind(self, arrays: Sequence[Array]) -> tuple[int, Hashable]:
        """How many rows a request has, and what it shares with all that it may be joined with.

        That is other dimensions and dtypes, and all bytes of inputs without rows. The kind is None
        where the request must run alone, because its inputs differ in their number of rows.
        """
        rows = {array.shape[0] if array.ndim else None for array in self.rowed(arrays)}
        count = rows.pop()
        if rows or count is None:
            return 1, None
        return count, tuple(
            (array.dtype, array.shape[1:]) if rowed else (array.dtype, array.shape, _content(array))
            for rowed, array in zip(self.inputs, arrays, strict=True)
        )

    def rowed(self, arrays: Sequence[Array]) -> list[Array]:
        """The inputs that have a row per example."""
        return [array for rowed, array in zip(self.inputs, arrays, strict=True) if rowed]


def _open(spec: TensorSpec) -> bool:
    return spec.shape is not None and min(spec.shape[:1], default=0) < 0


def _declared(inputs: Sequence[TensorSpec], declared: Sequence[str]) -> set[str]:
    known = {one.name: one for one in inputs}
    for name in declared:
        if name not in known:
            raise UsageError(
                f"batching: the model has no input '{name}': it has {', '.join(known)}."
            )
        if known[name].shape is not None and not _open(known[name]):
            raise UsageError(
                f"batching: the first dimension of input '{name}' is fixed "
                f"({_listed([known[name]])}): "
                f"export the model with dimension 0 dynamic, or leave '{name}' out."
            )
    return set(declared)


def _listed(specs: Sequence[TensorSpec]) -> str:
    return (
        ", ".join(
            f"{one.name} {'of any rank' if one.shape is None else list(one.shape)}" for one in specs
        )
        or "none"
    )


def _content(array: Array) -> bytes:
    """Bytes that are equal where the arrays' are; a digest where these are many."""
    if array.nbytes <= 64:
        return array.tobytes()
    return hashlib.blake2b(
        np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, digest_size=32
    ).digest()


def joint_shapes(axes: BatchAxes, requests: Sequence[Sequence[Array]]) -> list[tuple[int, ...]]:
    """The shapes of the inputs that `join` makes of these requests."""
    return [
        (sum(array.shape[0] for array in arrays), *arrays[0].shape[1:])
        if rowed
        else arrays[0].shape
        for rowed, arrays in zip(axes.inputs, zip(*requests, strict=True), strict=True)
    ]


def join(
    axes: BatchAxes, requests: Sequence[Sequence[Array]], out: Sequence[Array] | None = None
) -> list[Array]:
    """The inputs of one request that stands for `requests`, all of one kind, in their order.

    They are written to `out`, arrays of the `joint_shapes`, where it is given; else new, or those
    of a single request.
    """
    if out is None:
        if len(requests) == 1:
            return list(requests[0])
        out = [
            np.empty(shape, array.dtype)
            for shape, array in zip(joint_shapes(axes, requests), requests[0], strict=True)
        ]
    for rowed, target, arrays in zip(axes.inputs, out, zip(*requests, strict=True), strict=True):
        if rowed:
            np.concatenate(arrays, axis=0, out=target)
        else:
            np.copyto(target, arrays[0])
    return list(out)


def split(
    axes: BatchAxes, outputs: Mapping[str, Array], rows: Sequence[int]
) -> list[dict[str, Array]]:
    """Each request's outputs, by name: its own rows, and all of what has no rows. Nothing is
    copied.

    Raises ModelError where an output has not the rows of all requests together.
    """
    ends = list(accumulate(rows))
    for name in axes.outputs & outputs.keys():
        _check(name, outputs[name], ends[-1])
    return [
        {
            name: array[end - count : end] if name in axes.outputs else array
            for name, array in outputs.items()
        }
        for count, end in zip(rows, ends, strict=True)
    ]


def _check(name: str, array: Array, rows: int) -> None:
    if not array.ndim or array.shape[0] != rows:
        raise ModelError(
            f"output '{name}' has the shape {list(array.shape)} for requests of {rows} rows "
            "together: its "
            f"first dimension does not count examples. Leave batching out for this model."
        )
