"""Samples: elements of images at the places of a grid, and the places of elements."""

from __future__ import annotations

from ...element_types import dtypes
from ...element_types.value_types import TensorType
from ..mindir.values import MindirValue
from .node_conversion import NodeConversion
from .registry import converts

_MODES = {"linear": 0, "bilinear": 0, "nearest": 1, "cubic": 2, "bicubic": 2}
_BORDERS = {"zeros": 0, "border": 1, "reflection": 2}


@converts("GridSample")
def grid_sample(
    c: NodeConversion,
    x: MindirValue,
    grid: MindirValue,
    *,
    mode: str = "linear",
    padding_mode: str = "zeros",
    align_corners: int = 0,
) -> MindirValue:
    """Of images, or of volumes."""
    if x.rank not in (4, 5) or mode not in _MODES:
        raise ValueError(f"the mode '{mode}' of {x.rank} dimensions is not supported")
    primitive = "GridSampler2D" if x.rank == 4 else "GridSampler3D"
    return c.apply(primitive, x, grid, _MODES[mode], _BORDERS[padding_mode], bool(align_corners))


@converts("NonZero")
def non_zero(c: NodeConversion, x: MindirValue) -> MindirValue:
    """The places of the elements other than 0, one column for each."""
    rows = c.apply("NonZero", x, type=TensorType(dtypes.INT64, (-1, x.rank)))
    return c.apply("Transpose", rows, (1, 0), type=TensorType(dtypes.INT64, (x.rank, -1)))
