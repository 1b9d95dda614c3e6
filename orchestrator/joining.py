"""Several requests as one, row under row, and its outputs apart again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..comm.errors import ModelError
from .batch_axes import BatchAxes

Array = NDArray[Any]


def joint_shapes(axes: BatchAxes, requests: Sequence[Sequence[Array]]) -> list[tuple[int, ...]]:
    """The shapes of the inputs that `join` makes of these requests."""
    return [(sum(array.shape[0] for array in arrays), *arrays[0].shape[1:]) if rowed else arrays[0].shape
            for rowed, arrays in zip(axes.inputs, zip(*requests, strict=True), strict=True)]


def join(axes: BatchAxes, requests: Sequence[Sequence[Array]], out: Sequence[Array] | None = None) -> list[Array]:
    """The inputs of one request that stands for `requests`, all of one kind, in their order.

    They are written to `out`, arrays of the `joint_shapes`, where it is given; else new, or those of a single request.
    """
    if out is None:
        if len(requests) == 1:
            return list(requests[0])
        out = [np.empty(shape, array.dtype)
               for shape, array in zip(joint_shapes(axes, requests), requests[0], strict=True)]
    for rowed, target, arrays in zip(axes.inputs, out, zip(*requests, strict=True), strict=True):
        if rowed:
            np.concatenate(arrays, axis=0, out=target)
        else:
            np.copyto(target, arrays[0])
    return list(out)


def split(axes: BatchAxes, outputs: Mapping[str, Array], rows: Sequence[int]) -> list[dict[str, Array]]:
    """Each request's outputs, by name: its own rows, and all of what has no rows. Nothing is copied.

    Raises ModelError where an output has not the rows of all requests together.
    """
    ends = list(accumulate(rows))
    for name in axes.outputs & outputs.keys():
        _check(name, outputs[name], ends[-1])
    return [{name: array[end - count:end] if name in axes.outputs else array for name, array in outputs.items()}
            for count, end in zip(rows, ends, strict=True)]


def _check(name: str, array: Array, rows: int) -> None:
    if not array.ndim or array.shape[0] != rows:
        raise ModelError(f"output '{name}' has the shape {list(array.shape)} for requests of {rows} rows together: its "
                         f"first dimension does not count examples. Leave batching out for this model.")
