"""Pool windows: the kernel, the steps and the gaps of a pool, and pools of windows with gaps.

MindSpore's pools have no gaps (dilations). Their windows are taken apart: for each place of the
kernel a slice of the image, whose maximum or sum is that of the windows. One axis goes after the
other, so that a kernel of 3 by 3 needs 6 slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...element_types.value_types import TensorType
from ..mindir.values import MindirValue
from .node_conversion import NodeConversion
from .shape import sliced

_END = (1 << 31) - 1
"""The end of a slice that goes to the last place."""


@dataclass(frozen=True, slots=True)
class PoolWindow:
    """The sizes of a window along the axes of an image, or volume."""

    kernel: tuple[int, ...]
    steps: tuple[int, ...]
    gaps: tuple[int, ...]

    @classmethod
    def of(cls, kernel: Sequence[int], steps: Sequence[int], gaps: Sequence[int]) -> PoolWindow:
        """The window with these attributes of ONNX, which are 1 where they are left out."""
        ones = (1,) * len(kernel)
        return cls(tuple(kernel), tuple(steps) or ones, tuple(gaps) or ones)

    @property
    def dilated(self) -> bool:
        """Whether the window has gaps."""
        return any(gap != 1 for gap in self.gaps)

    def reach(self, axis: int) -> int:
        """The places from the first to the last of a window."""
        return (self.kernel[axis] - 1) * self.gaps[axis] + 1

    def counted(self, axis: int, begins: np.ndarray, low: int, high: int) -> np.ndarray:
        """How many places of the windows that begin there lie from `low` to below `high`."""
        places = begins[:, None] + np.arange(self.kernel[axis]) * self.gaps[axis]
        return np.asarray(((places >= low) & (places < high)).sum(1))


def taken_apart(c: NodeConversion, x: MindirValue, window: PoolWindow, join: str) -> MindirValue:
    """The places of each window, joined by a primitive; all lie within the image."""
    for axis, count in enumerate(window.kernel):
        parts = [_places(c, x, window, axis, index) for index in range(count)]
        x = parts[0]
        for part in parts[1:]:
            x = c.apply(join, x, part, type=TensorType(x.dtype, x.shape))
    return x


def _places(
    c: NodeConversion, x: MindirValue, window: PoolWindow, axis: int, index: int
) -> MindirValue:
    """One place of all windows along an axis."""
    begin, behind = index * window.gaps[axis], window.reach(axis) - 1
    size, step = x.shape[2 + axis], window.steps[axis]
    end = begin - behind or _END
    shape = list(x.shape)
    shape[2 + axis] = -1 if size < 0 else -(-(size - behind) // step)
    return sliced(c, x, {2 + axis: (begin, end, step)}, TensorType(x.dtype, tuple(shape)))
