"""Reductions: one number for all elements of some axes."""

from __future__ import annotations

from collections.abc import Sequence

from ..mindir.values import MindirValue
from .node_conversion import NodeConversion
from .registry import converts


@converts("ReduceMean", primitive="ReduceMean")
@converts("ReduceMax", primitive="ReduceMax")
@converts("ReduceMin", primitive="ReduceMin")
@converts("ReduceProd", primitive="ReduceProd")
@converts("ReduceSum", primitive="ReduceSum")
def reduction(
    c: NodeConversion,
    x: MindirValue,
    given: MindirValue | None = None,
    *,
    axes: Sequence[int] | None = None,
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
    primitive: str,
) -> MindirValue:
    """Axes are an input or, in older opsets, an attribute; none: all."""
    places = tuple(axes or ()) if given is None else c.numbers(given, "axes")
    if not places and noop_with_empty_axes:
        return x
    more = (False,) if primitive == "ReduceSum" else ()
    return c.apply(primitive, x, places, bool(keepdims), *more)


@converts("ReduceL2", root=True)
@converts("ReduceSumSquare", root=False)
def squares(
    c: NodeConversion,
    x: MindirValue,
    given: MindirValue | None = None,
    *,
    axes: Sequence[int] | None = None,
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
    root: bool,
) -> MindirValue:
    """The sum of squares, or its root."""
    square = c.apply("Mul", x, x, type=x.type)
    found = _summed(c, square, given, axes, keepdims, noop_with_empty_axes)
    return c.apply("Sqrt", found) if root else found


@converts("ReduceL1")
def magnitudes(
    c: NodeConversion,
    x: MindirValue,
    given: MindirValue | None = None,
    *,
    axes: Sequence[int] | None = None,
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
) -> MindirValue:
    """The sum of magnitudes."""
    magnitude = c.apply("Abs", x, type=x.type)
    return _summed(c, magnitude, given, axes, keepdims, noop_with_empty_axes)


def _summed(
    c: NodeConversion,
    x: MindirValue,
    given: MindirValue | None,
    axes: Sequence[int] | None,
    keepdims: int,
    noop: int,
) -> MindirValue:
    return reduction(
        c,
        x,
        given,
        axes=axes,
        keepdims=keepdims,
        noop_with_empty_axes=noop,
        primitive="ReduceSum",
    )
