"""Classification: the highest values of an output, as texts of value, position and label."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...comm.arrays import Array
from ...comm.errors import InputError
from .datatypes import datatype_of


def top_classes(array: Array, count: int, labels: Sequence[str] = ()) -> list[list[bytes]]:
    """For each row along dimension 0 its `count` highest values, each as `value:position`, or
    `value:position:label` where the position has a label.

    An array of fewer than two dimensions is one row.
    """
    if array.dtype.kind not in "fiuV" or array.size == 0:
        raise InputError(
            f"classification needs an output of numbers, got {datatype_of(array.dtype)}."
        )
    rows = array.reshape(array.shape[0], -1) if array.ndim > 1 else array.reshape(1, -1)
    rows = rows.astype(np.float64) if rows.dtype.kind in "fV" else rows
    return [_top(row, min(count, row.size), labels) for row in rows]


def _top(row: Array, count: int, labels: Sequence[str]) -> list[bytes]:
    best = np.argsort(-row if row.dtype.kind == "f" else ~row, kind="stable")[:count]
    value = "{:f}" if row.dtype.kind == "f" else "{:d}"
    return [
        f"{value.format(row[at])}:{at}{f':{labels[at]}' if at < len(labels) else ''}".encode()
        for at in best.tolist()
    ]
