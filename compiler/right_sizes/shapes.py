"""Shapes: the dimensions of all values of a model, from its shapes for some open dimensions.

See graph/dims.py for the meaning of choices, and graph/open_dimensions.py for the sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from ...comm.errors import InputError
from ..source_graph.annotations import annotations_of
from ..source_graph.dims import Dims, fixed
from ..source_graph.merged_transposes import part_merged_transposes
from ..source_graph.open_dimensions import (
    Sizes,
    least_sizes,
    odd_sizes,
    open_dimensions,
    set_dimensions,
    usual_sizes,
)
from ..source_graph.shape_run import ShapeRun
from ..source_graph.source_graph import SourceGraph
from .right_sizes import RightSizes, right_sizes


def source_graph(model: ir.Model, path: str, sizes: Mapping[str, int] | None = None) -> SourceGraph:
    """The graph of a uniform model with its dimensions.

    `sizes` has the usual sizes of open dimensions, by their names. InputError where a name is
    unknown, or a size is one that the model does not run with. Dimensions that have only one right
    size are not open any more: the model gets it.
    """
    given = dict(sizes or {})
    names = open_dimensions(model)
    unknown = sorted(set(given) - set(names))
    if unknown:
        raise InputError(
            f"{path}: has no open dimension '{unknown[0]}'; it has {', '.join(names) or 'none'}."
        )
    right = right_sizes(model, names)
    right.check(path, given)
    set_dimensions(model, right.exact)
    names = [name for name in names if name not in right.exact]
    given = {name: size for name, size in given.items() if name in names}
    runs = _runs(model, names, given, right)
    common = [name for name in runs[0].shapes if all(name in run.shapes for run in runs)]
    dims: dict[str, Dims] = {}
    for name in common:
        shapes = [run.shapes[name] for run in runs]
        if len({len(shape) for shape in shapes}) == 1:
            dims[name] = tuple(zip(*shapes, strict=True))
    _correct_outputs(model, dims)
    sizes_of = [run.sizes for run in runs]
    said = annotations_of(model)
    if not said:  # annotations are of the nodes as they are
        dims = part_merged_transposes(model, dims)
    tried = _unique([right.tried(one, given) for one in sizes_of])
    notes = tuple(map(str, right.fixed.values()))
    return SourceGraph(model, dims, len(runs), _constants(runs), sizes_of[0], tried, said, notes)


def _correct_outputs(model: ir.Model, dims: Mapping[str, Dims]) -> None:
    """Replace shapes of outputs that a file declares wrong by the computed ones: shards would
    declare them too, and ranks take the declaration of a collective's result at its word.
    """
    for value in model.graph.outputs:
        found = dims.get(str(value.name))
        if found is None or value.shape is None:
            continue
        stated = list(value.shape) if len(value.shape) == len(found) else [None] * len(found)
        fitting = [
            one if not isinstance(one, int) or set(sizes) == {one} else fixed(sizes)
            for one, sizes in zip(stated, found, strict=True)
        ]
        value.shape = ir.Shape(fitting)


def _unique(choices: Sequence[Sizes]) -> list[Sizes]:
    """The choices that differ from those before."""
    return [one for index, one in enumerate(choices) if one not in choices[:index]]


def _runs(model: ir.Model, names: Sequence[str], given: Sizes, right: RightSizes) -> list[ShapeRun]:
    """The shapes for each choice of sizes; those of the usual one first."""
    if not names:
        only = ShapeRun(model, {})
        return [only, ShapeRun(model, {}, 1)] if only.unsure.values else [only]
    likely = {name: one.size for name, one in right.fixed.items() if name in names}
    choices = usual_sizes(names, {**likely, **given}), odd_sizes(names, likely), least_sizes(names)
    numbers = 1, 0, 2
    return [
        _first_that_fits(model, attempts, right, number)
        for attempts, number in zip(choices, numbers, strict=True)
    ]


def _first_that_fits(
    model: ir.Model, attempts: Iterator[Sizes], right: RightSizes, number: int
) -> ShapeRun:
    """The shapes for the first sizes that fit; of all attempts those with the fewest failures."""
    best: ShapeRun | None = None
    for sizes in attempts:
        run = ShapeRun(model, right.completed(sizes), number)
        if best is None or len(run.failed) < len(best.failed):
            best = run
        if not run.failed:
            break
    assert best is not None
    return best


def _constants(runs: Sequence[ShapeRun]) -> dict[str, np.ndarray]:
    """The small tensors that are the same for all choices."""
    first, *others = runs
    return {
        name: value
        for name, value in first.values.items()
        if name not in first.unsure.values
        and all(name in run.values and np.array_equal(run.values[name], value) for run in others)
    }
