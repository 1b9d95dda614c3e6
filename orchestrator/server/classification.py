"""Classification: the highest values of an output, as texts of value, position and label."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ...comm.arrays import Array
from ...comm.errors import InputError
from .datatypes import datatype_of


def top_classes(
    array: Array, count: int, labels: Sequence[str] = ()
) -> tuple[list[int], list[bytes]]:
    """For each row along dimension 0 its `count` highest values, each as `value:position`, or
    `value:position:label` where the position has a label: their shape, and all of them.

    An array of fewer than two dimensions is one row.
    """
    if array.dtype.kind not in "fiuV":
        raise InputError(
            f"classification needs an output of numbers, got {datatype_of(array.dtype)}."
        )
    shape = array.shape if array.ndim > 1 else (1, array.size)
    rows = array.reshape(shape[0], prod(shape[1:]))
    rows = rows.astype(np.float64) if rows.dtype.kind in "fV" else rows
    count = min(count, rows.shape[1])
    texts = [text for row in rows for text in _top(row, count, labels)]
    return [len(rows), count] if array.ndim > 1 else [count], texts


def _top(row: Array, count: int, labels: Sequence[str]) -> list[bytes]:
    best = np.argsort(-row if row.dtype.kind == "f" else ~row, kind="stable")[:count]
    value = "{:f}" if row.dtype.kind == "f" else "{:d}"
    return [
        f"{value.format(row[at])}:{at}{f':{labels[at]}' if at < len(labels) else ''}".encode()
        for at in best.tolist()
    ]
