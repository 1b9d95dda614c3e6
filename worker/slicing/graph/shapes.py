"""Shapes: the dimensions of all values of a model, from its shapes for some open dimensions.

See dims.py for the meaning of choices, and open_dimensions.py for the sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np
import onnx_ir as ir

from ....comm.errors import InputError
from .annotations import annotations_of
from .dims import Dims, fixed
from .merged_transposes import part_merged_transposes
from .open_dimensions import (
    Sizes,
    least_sizes,
    odd_sizes,
    open_dimensions,
    size_of,
    sum_of_names,
    usual_sizes,
)
from .shape_run import ShapeRun
from .source_graph import SourceGraph


def source_graph(model: ir.Model, path: str, sizes: Mapping[str, int] | None = None) -> SourceGraph:
    """The graph of a uniform model with its dimensions.

    `sizes` has the usual sizes of open dimensions, by their names. InputError where a name is
    unknown.
    """
    names = open_dimensions(model)
    unknown = sorted(set(sizes or {}) - set(names))
    if unknown:
        raise InputError(
            f"{path}: has no open dimension '{unknown[0]}'; it has {', '.join(names) or 'none'}."
        )
    runs = _runs(model, names, sizes or {})
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
    return SourceGraph(model, dims, len(runs), _constants(runs), sizes_of[0], sizes_of, said)


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


def _runs(model: ir.Model, names: Sequence[str], given: Sizes) -> list[ShapeRun]:
    """The shapes for each choice of sizes; those of the usual one first."""
    if not names:
        only = ShapeRun(model, {})
        return [only, ShapeRun(model, {}, 1)] if only.unsure.values else [only]
    odd, sums = _independent(model, names)
    usual = _first_that_fits(model, usual_sizes(names, given), sums, 1)
    return [usual, odd, _first_that_fits(model, least_sizes(names), sums, 2)]


def _independent(model: ir.Model, names: Sequence[str]) -> tuple[ShapeRun, Mapping[str, str]]:
    """The shapes for odd sizes, and the names that turn out to be sums of others.

    An export may name the length of a mask by itself, though it must be that of the past and of
    the sequence together. With sizes of its own, an operator then gets shapes that do not fit.
    """
    sums: dict[str, str] = {}
    while True:
        run = _first_that_fits(model, odd_sizes(names), sums)
        clash = _clash(run) if run.failed else None
        found = None if clash is None else sum_of_names(*clash, run.sizes)
        if found is None or found[0] in sums:
            return run, sums
        sums[found[0]] = found[1]


def _first_that_fits(
    model: ir.Model, attempts: Iterator[Sizes], sums: Mapping[str, str], number: int = 0
) -> ShapeRun:
    """The shapes for the first sizes that fit; of all attempts those with the fewest failures."""
    best: ShapeRun | None = None
    for sizes in attempts:
        whole = {**sizes, **{name: size_of(text, sizes) for name, text in sums.items()}}
        run = ShapeRun(model, whole, number)
        if best is None or len(run.failed) < len(best.failed):
            best = run
        if not run.failed:
            break
    assert best is not None
    return best


def _clash(run: ShapeRun) -> tuple[int, int] | None:
    """Two sizes that ought to be the same, of the inputs of the first node that failed."""
    node = run.failed[0]
    known = [str(value.name) for value in node.inputs if value is not None]
    shapes = [run.shapes[name][::-1] for name in known]
    if node.op_type == "MatMul":
        shapes = [shapes[0][:1], shapes[1][1:2]]
    elif node.op_type == "Expand":
        target = run.values.get(known[1], np.empty(0, np.int64))
        shapes = [shapes[0], tuple(int(size) for size in target[::-1])]
    for first, second in combinations(shapes, 2):
        for one, two in zip(first, second, strict=False):
            if one != two and 1 not in (one, two):
                return one, two
    return None


def _constants(runs: Sequence[ShapeRun]) -> dict[str, np.ndarray]:
    """The small tensors that are the same for all choices."""
    first, *others = runs
    return {
        name: value
        for name, value in first.values.items()
        if name not in first.unsure.values
        and all(name in run.values and np.array_equal(run.values[name], value) for run in others)
    }
