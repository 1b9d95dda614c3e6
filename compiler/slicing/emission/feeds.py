"""Feeds: draw random inputs for a model, plausible for what it does with them.

Integers that look up rows of a table stay below its length, masks are 0 or 1, other integers 0 or
1. A model that gets ids beyond its vocabulary would fail, or compare nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from ...source_graph.dims import fixed
from ...source_graph.open_dimensions import dimension_name, size_of
from ...source_graph.source_graph import SourceGraph

_CARRIERS = {"Cast", "Reshape", "Unsqueeze", "Squeeze", "Identity", "Flatten", "Slice", "Concat"}
_CARRIERS |= {"Expand", "Transpose", "Add", "Where", "Split", "Tile"}
_LOOKUPS = {"Gather": 1, "GatherElements": 1}
_FAR = 24
"""Steps from an input to the table that it looks up."""


def random_feeds(
    graph: SourceGraph, sizes: Mapping[str, int], seed: int = 0, scale: float = 1.0
) -> dict[str, np.ndarray]:
    """Inputs for a model whose open dimensions have these sizes.

    Numbers that are not integers are about as large as `scale`.
    """
    draw = np.random.default_rng(seed)
    found = {
        str(value.name): _drawn(graph, value, sizes, draw) for value in graph.model.graph.inputs
    }
    return {name: scaled(array, scale) for name, array in found.items()}


def scaled(array: np.ndarray, scale: float) -> np.ndarray:
    """An array times a scale, as far as its type goes; integers and bools as they are."""
    if array.dtype.kind != "f" or scale == 1:
        return array
    most = float(np.finfo(array.dtype).max)
    return np.asarray(np.clip(array.astype(np.float64) * scale, -most, most), array.dtype)


def _drawn(
    graph: SourceGraph, value: ir.Value, sizes: Mapping[str, int], draw: np.random.Generator
) -> np.ndarray:
    assert value.dtype is not None
    shape, kind = _shape(value, sizes), value.dtype.numpy()
    if kind.kind == "b":
        return np.asarray(draw.random(shape) < 0.75)  # without axes numpy gives a scalar
    if kind.kind not in "iu":
        return draw.standard_normal(shape).astype(kind)
    if shape and "mask" in str(value.name).lower():
        mask = draw.random(shape) < 0.75
        mask[..., :1] = True  # a row without any would make NaN of all that follows
        return mask.astype(kind)
    rows = list(_tables(graph, value))
    most = min(rows) if rows else 256 if kind.itemsize == 1 and kind.kind == "u" else 2
    return draw.integers(0, most, shape).astype(kind)


def _shape(value: ir.Value, sizes: Mapping[str, int]) -> Sequence[int]:
    return [
        dim if isinstance(dim, int) else size_of(dimension_name(value, axis), sizes)
        for axis, dim in enumerate(value.shape or ())
    ]


def _tables(graph: SourceGraph, value: ir.Value) -> Iterator[int]:
    """The lengths of the tables that a value's elements are positions in."""
    seen, front = {value}, [value]
    for _ in range(_FAR):
        following: list[ir.Value] = []
        for one in front:
            for use in one.uses():
                if _LOOKUPS.get(use.node.op_type) == use.idx:
                    yield from _length(graph, use.node)
                elif use.node.op_type in _CARRIERS:
                    following += [made for made in use.node.outputs if made not in seen]
        seen.update(following)
        front = following


def _length(graph: SourceGraph, node: ir.Node) -> Iterator[int]:
    """The length of the axis that a node looks up, where it is fixed."""
    table, axis = node.inputs[0], node.attributes.get("axis")
    dims = graph.dims.get(str(table.name)) if table is not None else None
    if dims:
        length = fixed(dims[axis.as_int() if axis is not None else 0])
        if length:
            yield length
