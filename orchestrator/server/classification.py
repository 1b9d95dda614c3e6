"""Classification: the highest values of an output, as texts of value and position."""

from __future__ import annotations

import numpy as np

from ...comm.arrays import Array
from ...comm.errors import InputError


def top_classes(array: Array, count: int) -> list[list[bytes]]:
    """For each row along dimension 0 its `count` highest values, each as `value:position`.

    An array of fewer than two dimensions is one row.
    """
    if array.dtype.kind not in "fiuV" or array.size == 0:
        raise InputError(f"classification needs an output of numbers, got {array.dtype}.")
    rows = array.reshape(array.shape[0], -1) if array.ndim > 1 else array.reshape(1, -1)
    rows = rows.astype(np.float64) if rows.dtype.kind in "fV" else rows
    return [_top(row, min(count, row.size)) for row in rows]


def _top(row: Array, count: int) -> list[bytes]:
    best = np.argsort(-row if row.dtype.kind == "f" else ~row, kind="stable")[:count]
    value = "{:f}" if row.dtype.kind == "f" else "{:d}"
    return [f"{value.format(row[position])}:{position}".encode() for position in best]
