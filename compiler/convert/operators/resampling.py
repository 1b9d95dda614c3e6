"""Resampling: the old places, and their weights, for each new place of one axis of a Resize."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Rounding = Callable[[NDArray[np.float64]], NDArray[np.float64]]

_ROUNDINGS: Mapping[str, Rounding] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


@dataclass(frozen=True, slots=True)
class ResizeForm:
    """The attributes of a Resize that tell how it interpolates."""

    mode: str
    coordinates: str
    rounding: str
    cubic: float
    exclude_outside: bool


@dataclass(frozen=True, slots=True)
class AxisResampling:
    """One axis of `old` places that gets `new` ones."""

    how: ResizeForm
    old: int
    new: int
    scale: float

    @property
    def nearest(self) -> NDArray[np.int64]:
        """The old place of each new one."""
        if self.how.rounding not in _ROUNDINGS:
            raise ValueError(f"the rounding '{self.how.rounding}' is not supported")
        near = _ROUNDINGS[self.how.rounding](self._places())
        return np.clip(near, 0, self.old - 1).astype(np.int64)

    @property
    def weights(self) -> NDArray[np.float64]:
        """A matrix (old, new) that interpolates."""
        if self.how.mode not in ("linear", "cubic"):
            raise ValueError(f"the mode '{self.how.mode}' is not supported")
        reach = 1 if self.how.mode == "linear" else 2
        places = self._places()[:, None]
        near = np.floor(places) + np.arange(1 - reach, reach + 1)
        weights = self._kernel(np.abs(near - places))
        if self.how.exclude_outside:
            weights = np.where((near < 0) | (near >= self.old), 0, weights)
        weights /= weights.sum(1, keepdims=True)
        found = np.zeros((self.old, self.new))
        rows = np.clip(near, 0, self.old - 1).astype(int)
        np.add.at(found, (rows, np.arange(self.new)[:, None]), weights)
        return found

    def _kernel(self, distance: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.how.mode == "linear":
            return np.maximum(0, 1 - distance)
        a, d = self.how.cubic, distance
        inner = ((a + 2) * d - (a + 3)) * d * d + 1
        outer = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        return np.where(d <= 1, inner, np.where(d < 2, outer, 0))

    def _places(self) -> NDArray[np.float64]:
        """Where each new place lies among the old ones."""
        at = np.arange(self.new, dtype=np.float64)
        half = (at + 0.5) / self.scale - 0.5
        name = self.how.coordinates
        if name == "half_pixel":
            return half
        if name == "pytorch_half_pixel":
            return half if self.new > 1 else np.zeros(1)
        if name == "align_corners":
            return at * (self.old - 1) / (self.new - 1) if self.new > 1 else np.zeros(1)
        if name == "asymmetric":
            return at / self.scale
        if name == "half_pixel_symmetric":
            ratio = self.new / (self.scale * self.old)
            return self.old / 2 * (1 - ratio) + half
        raise ValueError(f"the coordinates '{name}' are not supported")
