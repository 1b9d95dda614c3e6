"""Resizing: gives images other sizes, by a primitive where one computes the same as ONNX."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...element_types import dtypes
from ...element_types.value_types import TensorType
from ..mindir.values import MindirValue
from .node_conversion import NodeConversion
from .registry import converts
from .resampling import AxisResampling, ResizeForm
from .shape import sizes_of, sliced

_HALF = ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric")
_ROUNDED = ("round_prefer_floor", "round_prefer_ceil")


@converts("Resize")
def resize(
    c: NodeConversion,
    x: MindirValue,
    roi: MindirValue | None = None,
    scales: MindirValue | None = None,
    sizes: MindirValue | None = None,
    *,
    mode: str = "nearest",
    coordinate_transformation_mode: str = "half_pixel",
    nearest_mode: str = "round_prefer_floor",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    antialias: int = 0,
    keep_aspect_ratio_policy: str = "stretch",
    axes: tuple[int, ...] | None = None,
) -> MindirValue:
    """To the sizes of the result. ValueError for regions of images."""
    if coordinate_transformation_mode == "tf_crop_and_resize" or antialias:
        raise ValueError("regions of images, and antialias, are not supported")
    how = ResizeForm(
        mode,
        coordinate_transformation_mode,
        nearest_mode,
        cubic_coeff_a,
        bool(exclude_outside),
    )
    places = tuple(range(x.rank)) if axes is None else tuple(axis % x.rank for axis in axes)
    factors = _factors(x, scales, sizes, places, keep_aspect_ratio_policy)
    changed = _Change(x.shape, c.shape, places, factors)
    if changed.known:
        return _resampled(c, x, changed, how)
    if sizes is None:
        return _multiplied(c, x, changed, how)
    return _primitive(c, x, how, _computed(c, sizes, places))


def _factors(
    x: MindirValue,
    scales: MindirValue | None,
    sizes: MindirValue | None,
    places: tuple[int, ...],
    policy: str,
) -> np.ndarray | None:
    """The factors of axes; None where they are those of the sizes."""
    if scales is not None and scales.shape != (0,):
        if scales.constant is None:
            raise ValueError(
                "the factors are computed by the model: fix its shapes by --inputShape"
            )
        return np.asarray(scales.constant)
    if sizes is None or policy == "stretch":
        return None
    old = np.array([x.shape[axis] for axis in places])
    if sizes.constant is None or old.min() < 0:
        raise ValueError("the size of the image is open: fix it by --inputShape")
    ratios = np.asarray(sizes.constant) / old
    one = ratios.min() if policy == "not_larger" else ratios.max()
    return np.full(len(places), one)


@dataclass(frozen=True, slots=True)
class _Change:
    """The sizes of a tensor before and after, and what ONNX says of their ratio."""

    old: tuple[int, ...]
    new: tuple[int, ...]
    places: tuple[int, ...]
    factors: np.ndarray | None

    @property
    def axes(self) -> list[int]:
        """The axes whose size is another, or open and multiplied."""
        pairs = enumerate(zip(self.old, self.new, strict=True))
        return [axis for axis, (old, new) in pairs if old != new or old < 0 and self.scaled(axis)]

    def scaled(self, axis: int) -> bool:
        """Whether an axis may get another size."""
        if axis not in self.places:
            return False
        return self.factors is None or self.factors[self.places.index(axis)] != 1

    @property
    def known(self) -> bool:
        """Whether all sizes that change are known."""
        return all(self.old[axis] >= 0 and self.new[axis] >= 0 for axis in self.axes)

    def scale(self, axis: int) -> float:
        """The factor of an axis."""
        if self.factors is not None:
            return float(self.factors[self.places.index(axis)])
        return self.new[axis] / self.old[axis]

    @property
    def of_images(self) -> bool:
        """Whether only the last two of four axes change, exactly by their factors."""
        exact = all(self.new[one] == self.old[one] * self.scale(one) for one in self.axes)
        return len(self.old) == 4 and set(self.axes) <= {2, 3} and exact


def _resampled(c: NodeConversion, x: MindirValue, changed: _Change, how: ResizeForm) -> MindirValue:
    """By a primitive, else by a product or a gather for each axis."""
    axes = changed.axes
    whole = all(changed.new[axis] % changed.old[axis] == 0 for axis in axes)
    many = all(changed.new[axis] > 1 for axis in axes)
    if changed.of_images and many and _is_exact(how, whole):
        return _primitive(c, x, how, changed.new[2:])
    if how.mode != "nearest" and not dtypes.is_float(x.dtype):
        raise ValueError(f"the mode '{how.mode}' is supported for floats alone")
    for axis in axes:
        resampling = AxisResampling(how, changed.old[axis], changed.new[axis], changed.scale(axis))
        x = _along(c, x, axis, resampling)
    return x if axes else c.apply("Reshape", x, c.shape)


def _is_exact(how: ResizeForm, whole: bool) -> bool:
    """Whether one of MindSpore's primitives computes the same."""
    if how.exclude_outside:
        return False
    if how.mode == "linear":
        return how.coordinates in (*_HALF, "align_corners", "asymmetric")
    if how.mode == "cubic":
        return how.coordinates == "align_corners" and how.cubic == -0.75
    if how.coordinates in _HALF:
        return whole and how.rounding in _ROUNDED
    return (how.coordinates, how.rounding) == ("asymmetric", "floor")


def _primitive(
    c: NodeConversion,
    x: MindirValue,
    how: ResizeForm,
    size: tuple[int, ...] | MindirValue,
) -> MindirValue:
    aligned, half = how.coordinates == "align_corners", how.coordinates in _HALF
    if how.mode == "nearest":
        return c.apply("ResizeNearestNeighborV2", x, size, False, False)
    primitive = "ResizeBilinearV2" if how.mode == "linear" else "ResizeBicubic"
    return c.apply(primitive, x, size, aligned, half)


def _along(c: NodeConversion, x: MindirValue, axis: int, resampling: AxisResampling) -> MindirValue:
    """One axis in its new size."""
    shape = (*x.shape[:axis], resampling.new, *x.shape[axis + 1 :])
    kind = TensorType(x.dtype, shape)
    if resampling.how.mode == "nearest":
        return c.apply("Gather", x, resampling.nearest, axis, 0, type=kind)
    weights = resampling.weights.astype(x.dtype)
    last = x.rank - 1
    if axis == last:
        return c.apply("MatMulExt", x, weights, type=kind)
    order = list(range(x.rank))
    order[axis], order[last] = last, axis
    turned = c.transposed(x, tuple(order))
    wide = TensorType(x.dtype, (*turned.shape[:-1], resampling.new))
    return c.transposed(c.apply("MatMulExt", turned, weights, type=wide), tuple(order))


def _multiplied(
    c: NodeConversion, x: MindirValue, changed: _Change, how: ResizeForm
) -> MindirValue:
    """An image of an open size, by whole factors."""
    factors = changed.factors
    if factors is None or x.rank != 4 or any(one % 1 for one in factors):
        raise ValueError("the size of the image is open: fix it by --inputShape")
    by_axis = dict(zip(changed.places, factors, strict=True))
    if any(by_axis.get(axis, 1) != 1 for axis in (0, 1)) or not _is_exact(how, True):
        raise ValueError("the size of the image is open: fix it by --inputShape")
    whole = np.array([by_axis.get(axis, 1) for axis in (2, 3)], np.int64)
    kind = TensorType(dtypes.INT64, (2,))
    now = c.apply("TensorShape", x, type=TensorType(dtypes.INT64, (4,)))
    image = sliced(c, now, {0: (2, 4, 1)}, kind)
    return _primitive(c, x, how, sizes_of(c, c.apply("Mul", image, whole, type=kind), 2))


def _computed(c: NodeConversion, sizes: MindirValue, places: tuple[int, ...]) -> MindirValue:
    """The size of an image, which the model computes."""
    if places[-2:] != (2, 3) or len(c.shape) != 4:
        raise ValueError("the size of the image is open: fix it by --inputShape")
    count, kind = len(places), TensorType(dtypes.INT64, (2,))
    image = sizes if count == 2 else sliced(c, sizes, {0: (count - 2, count, 1)}, kind)
    return sizes_of(c, image, 2)
