"""Batch axes: find the rows of inputs and outputs, join requests row under row, split outputs."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from ...comm.arrays import Array
from ...comm.errors import ModelError, UsageError
from ...comm.serving.string_tensor import joined_size, packed_shape, split_rows, write_joined
from ...comm.serving.tensor_spec import TensorSpec


@dataclass(frozen=True, slots=True)
class BatchAxes:
    """For each input, in the model's order, whether its dimension 0 counts examples; the names of
    such outputs. `strings` has the positions of inputs that are packed strings, and the names of
    such outputs.
    """

    inputs: tuple[bool, ...]
    outputs: frozenset[str]
    strings: frozenset[int | str] = frozenset()

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
        strings: set[int | str] = {at for at, one in enumerate(inputs) if one.strings}
        strings.update(one.name for one in outputs if one.strings)
        return cls(tuple(one.name in names for one in inputs), rowed, frozenset(strings))

    def rows_and_kind(self, arrays: Sequence[Array]) -> tuple[int, Hashable]:
        """How many rows a request has, and what it shares with all that it may be joined with.

        That is other dimensions and dtypes, and all bytes of inputs without rows. The kind is None
        where the request must run alone, because its inputs differ in their number of rows.
        """
        shapes = [self._shape(at, array) for at, array in enumerate(arrays)]
        rowed = [shape for rowed, shape in zip(self.inputs, shapes, strict=True) if rowed]
        rows = {shape[0] if shape else None for shape in rowed}
        count = rows.pop()
        if rows or count is None:
            return 1, None
        return count, tuple(
            (array.dtype, shape[1:]) if rowed else (array.dtype, shape, _content(array))
            for rowed, array, shape in zip(self.inputs, arrays, shapes, strict=True)
        )

    def _shape(self, key: int | str, array: Array) -> tuple[int, ...]:
        """The shape of an input or output, which packed strings tell at their beginning."""
        return packed_shape(array) if key in self.strings else array.shape

    def require_rows(self, name: str, array: Array, rows: int) -> None:
        """ModelError where an output has not so many rows."""
        shape = self._shape(name, array)
        if not shape or shape[0] != rows:
            raise ModelError(
                f"output '{name}' has the shape {list(shape)} for requests of {rows} rows "
                "together: its "
                "first dimension does not count examples. Leave batching out for this model."
            )


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
    """The shapes of the inputs that `join` makes of these requests; of strings when packed."""
    return [
        _joint_shape(arrays, at in axes.strings) if axes.inputs[at] else arrays[0].shape
        for at, arrays in enumerate(zip(*requests, strict=True))
    ]


def _joint_shape(arrays: Sequence[Array], strings: bool) -> tuple[int, ...]:
    if strings:
        return (joined_size(arrays),)
    return (sum(array.shape[0] for array in arrays), *arrays[0].shape[1:])


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
    for at, arrays in enumerate(zip(*requests, strict=True)):
        if not axes.inputs[at]:
            np.copyto(out[at], arrays[0])
        elif at in axes.strings:
            write_joined(arrays, out[at])
        else:
            np.concatenate(arrays, axis=0, out=out[at])
    return list(out)


def split(
    axes: BatchAxes, outputs: Mapping[str, Array], rows: Sequence[int]
) -> list[dict[str, Array]]:
    """Each request's outputs, by name: its own rows, and all of what has no rows. Nothing but
    strings is copied.

    Raises ModelError where an output has not the rows of all requests together.
    """
    found: list[dict[str, Array]] = [{} for _ in rows]
    for name, array in outputs.items():
        parts = _parts(axes, name, array, rows) if name in axes.outputs else [array] * len(rows)
        for one, part in zip(found, parts, strict=True):
            one[name] = part
    return found


def _parts(axes: BatchAxes, name: str, array: Array, rows: Sequence[int]) -> list[Array]:
    """The rows of each request of an output that has them."""
    try:
        axes.require_rows(name, array, sum(rows))
        if name in axes.strings:
            return split_rows(array, rows)
    except ValueError as error:
        raise ModelError(f"the output '{name}' is no tensor of strings: it {error}.") from None
    ends = accumulate(rows)
    return [array[end - count : end] for count, end in zip(rows, ends, strict=True)]
