"""Default shapes: gives inputs shapes for a first run of a model whose dimensions are open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from ..model_file.loaded_model import LoadedModel
from ..source_graph.open_dimensions import dimension_name, expression, open_dimensions
from ..source_graph.source_graph import made_uniform
from .right_sizes import RightSize, right_sizes


@dataclass(frozen=True, slots=True)
class DefaultShapes:
    """The shapes of inputs, by name, and the dimensions that have only one right size.

    A dimension that may have any size is 1, or what sums make of that. `fixed` has -1 for it, and
    the shapes of outputs, too.
    """

    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    fixed: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    right: Sequence[RightSize] = ()


def default_shapes(loaded: LoadedModel) -> DefaultShapes:
    """The shapes of a model's inputs; none where its graph cannot be analysed."""
    try:
        model = made_uniform(ir.from_proto(loaded.model))
        names = open_dimensions(model)
        found = right_sizes(model, names)
    except Exception:  # a graph that no pass of onnx-ir takes may still run
        return DefaultShapes()
    likely = {name: one.size for name, one in found.fixed.items()}
    sizes = found.tried({**dict.fromkeys(names, 1), **likely}, {})
    return DefaultShapes(
        {str(one.name): _shape(one, sizes, 1) for one in model.graph.inputs if one.shape},
        {
            str(one.name): _shape(one, found.exact, -1)
            for one in (*model.graph.inputs, *model.graph.outputs)
            if one.shape
        },
        tuple(found.fixed.values()),
    )


def _shape(value: ir.Value, sizes: Mapping[str, int], other: int) -> tuple[int, ...]:
    """The shape of an input; `other` is the size of a dimension that `sizes` lacks."""
    found = []
    for axis, dim in enumerate(value.shape or ()):
        if isinstance(dim, int):
            found.append(dim)
            continue
        size = expression(dimension_name(value, axis), sizes)
        found.append(other if size is None else size)
    return tuple(found)
