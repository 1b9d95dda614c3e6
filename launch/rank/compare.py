"""Comparison of outputs with references: distances and tolerances."""

from __future__ import annotations

import numpy as np

from ...comm.arrays import Array
from ...comm.text import counted

TOLERANCE = {"float64": 1e-4, "float32": 1e-4, "float16": 2e-3, "bfloat16": 1e-2}
_FLOOR = 1e-6


class Distance:
    """The distance of `got` from `reference`; `error` is empty where it is within tolerance.

    `max_absolute` and `max_relative` are None where shapes or dtypes differ, NaN where an element
    is NaN on one side only, and infinite where infinities differ.

    Without rtol and atol: max|got - reference| <= T * max(max|reference| over its finite elements,
    1e-6), T by the dtype of the output; integers and bools must be equal. With either: |got -
    reference| <= atol + rtol * |reference| for each element. NaN equals NaN, and an infinity
    another of its sign.
    """

    def __init__(
        self, got: Array, reference: Array, rtol: float | None = None, atol: float | None = None
    ) -> None:
        self.max_absolute: float | None = 0.0
        self.max_relative: float | None = 0.0
        self.error = _type_error(got, reference)
        if self.error:
            self.max_absolute = self.max_relative = None
            return
        finite = np.isfinite(got) & np.isfinite(reference)
        specials = _widened(got[~finite]), _widened(reference[~finite])
        if not np.array_equal(*specials, equal_nan=True):
            self.error = "NaN or infinite elements differ"
            one_sided = np.isnan(got) != np.isnan(reference)
            self.max_absolute = self.max_relative = np.nan if one_sided.any() else np.inf
        elif finite.any():
            self._measure(got[finite], reference[finite], rtol, atol)

    def _measure(
        self, got: Array, reference: Array, rtol: float | None, atol: float | None
    ) -> None:
        """Measure the distance of finite elements."""
        difference, magnitude = _difference(got, reference), abs(_widened(reference))
        self.max_absolute = float(difference.max())
        self.max_relative = float(difference.max()) / max(float(magnitude.max()), _FLOOR)
        self.error = _excess(difference, magnitude, got.dtype.name, rtol, atol)


def _excess(
    difference: Array, magnitude: Array, dtype: str, rtol: float | None, atol: float | None
) -> str:
    if rtol is not None or atol is not None:
        allowed = (atol or 0.0) + (rtol or 0.0) * magnitude
        outside = int((~(difference <= allowed)).sum())
        bounds = f"rtol {rtol or 0:g}, atol {atol or 0:g}"
        return (
            f"{outside} of {counted(difference.size, 'element')} outside {bounds}"
            if outside
            else ""
        )
    tolerance, scale = TOLERANCE.get(dtype, 0.0), max(float(magnitude.max()), _FLOOR)
    largest = float(difference.max())
    if largest <= tolerance * scale:
        return ""
    return (
        f"relative error {largest / scale:.2g} > {tolerance:g}"
        if tolerance
        else "not exactly equal"
    )


def _type_error(got: Array, reference: Array) -> str:
    """The mismatch of shapes or dtypes. An NPZ has float32 for bfloat16."""
    stored = "float32" if got.dtype.name == "bfloat16" else got.dtype.name
    if reference.dtype.name != stored:
        convert = f": save it as .astype('{stored}')" if reference.dtype == np.float64 else ""
        return f"is {got.dtype.name}, the reference {reference.dtype.name}{convert}"
    if got.shape != reference.shape:
        return f"has shape {list(got.shape)}, the reference {list(reference.shape)}"
    return ""


def _difference(got: Array, reference: Array) -> Array:
    """|got - reference|: floats in float64, integers exactly, as uint64 has room for every
    difference.
    """
    if got.dtype.kind in "iub":
        return np.maximum(got, reference).astype(np.uint64) - np.minimum(got, reference).astype(
            np.uint64
        )
    with np.errstate(over="ignore"):
        return np.asarray(np.abs(_widened(got) - _widened(reference)))


def _widened(array: Array) -> Array:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
