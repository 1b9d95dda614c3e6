"""What a model takes and gives, as whoever sends it requests knows it."""

from __future__ import annotations

import msgspec
import numpy as np


class TensorSpec(msgspec.Struct, frozen=True):
    """One input or output: its name, numpy's name of its dtype, its shape (-1: any size; None: any rank)."""

    name: str
    dtype: str
    shape: tuple[int, ...] | None

    @property
    def fixed(self) -> bool:
        """Whether the shape leaves nothing open."""
        return self.shape is not None and min(self.shape, default=0) >= 0

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Whether a tensor may have this shape."""
        return self.shape is None or (len(self.shape) == len(shape) and all(
            want < 0 or want == have for want, have in zip(self.shape, shape, strict=True)))


def dtype_named(name: str) -> np.dtype[np.generic]:
    """The dtype that numpy, or ml_dtypes, calls `name`."""
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes  # noqa: F401  # adds bfloat16 and its like to numpy's names

        return np.dtype(name)
