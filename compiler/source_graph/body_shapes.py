"""Shapes of bodies: infers the shapes of If and Loop from their branches and bodies.

A size in which two branches differ, or that a turn changes, is unsure. Declarations of the file
count only where inference knows nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
import onnx_ir as ir

from .unsure_sizes import UnsureSizes

Shape = tuple[int, ...]


class InfersShapes(Protocol):
    """A run over the nodes of a model, as far as bodies need it."""

    shapes: dict[str, Shape]
    values: dict[str, np.ndarray]
    failed: list[ir.Node]
    unsure: UnsureSizes

    def infer(self, node: ir.Node) -> None:
        """Enter the shapes of a node's outputs."""

    def enter(self, value: ir.Value, shape: Sequence[int]) -> None:
        """Enter the shape of a value."""

    def declare(self, value: ir.Value) -> None:
        """Enter the shape that the file declares."""


def branches(run: InfersShapes, node: ir.Node) -> None:
    """Enter what both branches of an If have, or the one that the condition picks."""
    graphs = [node.attributes[name].as_graph() for name in ("then_branch", "else_branch")]
    failed = list(run.failed)
    for graph in graphs:
        for inner in graph:
            run.infer(inner)
    run.failed = failed  # the branch that is not taken may not fit
    condition = run.values.get(name_of(node.inputs[0])) if node.inputs[0] is not None else None
    if condition is not None:
        graphs = [graphs[0 if condition.all() else 1]]
    for index, value in enumerate(node.outputs):
        results = [graph.outputs[index] for graph in graphs]
        inherit(value, results[0])
        _enter_common(run, value, results)
        if len(results) == 1 and name_of(results[0]) in run.values:
            run.values[name_of(value)] = run.values[name_of(results[0])]


def _enter_common(run: InfersShapes, value: ir.Value, results: Sequence[ir.Value]) -> None:
    """Enter the shape that some results have, of which one becomes the value."""
    names = [name_of(one) for one in results]
    shapes = [run.shapes[name] for name in names if name in run.shapes]
    if len(shapes) < len(results):
        return run.declare(value)
    if len({len(shape) for shape in shapes}) == 1:
        sizes = [own[0] if len(set(own)) == 1 else -1 for own in zip(*shapes, strict=True)]
        _enter_sizes(run, value, sizes, not run.unsure.values.isdisjoint(names))
    return None


def loop(run: InfersShapes, node: ir.Node) -> None:
    """Enter the shapes of the values that a Loop carries, and of those that its turns give."""
    body = node.attributes["body"].as_graph()
    for value in body.inputs[:2]:
        run.enter(value, ())
    states = body.inputs[2:]
    for value, outer in zip(states, node.inputs[2:], strict=True):
        if outer is not None:
            inherit(value, outer)
            _enter_sizes(run, value, run.shapes[name_of(outer)], outer.name in run.unsure.values)
    changing = _settle(run, body)
    shapes = [run.shapes.get(name_of(one)) for one in states]
    ends = [_open(shape, axes) for shape, axes in zip(shapes, changing, strict=True)]
    rows = [run.shapes.get(name_of(one)) for one in body.outputs[1 + len(states) :]]
    ends += [None if row is None else (-1, *row) for row in rows]
    for value, inner, sizes in zip(node.outputs, body.outputs[1:], ends, strict=True):
        inherit(value, inner)
        if sizes is None:
            run.declare(value)
        else:
            _enter_sizes(run, value, sizes, inner.name in run.unsure.values)


def _settle(run: InfersShapes, body: ir.Graph) -> Sequence[set[int]]:
    """Go through a body until no turn changes a size that is not known to change.

    It returns the axes of each state whose sizes change.
    """
    failed, states = list(run.failed), body.inputs[2:]
    changing: Sequence[set[int]] = [set() for _ in states]
    while True:
        for inner in body:
            run.infer(inner)
        begun = [run.shapes.get(name_of(one)) for one in states]
        ended = [run.shapes.get(name_of(one)) for one in body.outputs[1 : 1 + len(states)]]
        widened = [_widened(*one) for one in zip(begun, ended, changing, strict=True)]
        if widened == begun:
            return changing
        run.failed = list(failed)
        _forget(run, body)
        _distrust(body)
        for value, sizes in zip(states, widened, strict=True):
            if sizes is not None:
                _enter_sizes(run, value, sizes, value.name in run.unsure.values)


def _widened(before: Shape | None, after: Shape | None, changing: set[int]) -> Shape | None:
    """The sizes of a state before and after a turn, -1 where it changes them; `changing` gets
    these axes.

    None where the number of dimensions changes or is not known.
    """
    if before is None or after is None or len(before) != len(after):
        return None
    new = {axis for axis in range(len(before)) if before[axis] != after[axis]} - changing
    changing |= new
    return _open(before, new)


def _open(shape: Shape | None, axes: set[int]) -> Shape | None:
    """A shape with sizes of -1 for some axes."""
    if shape is None:
        return None
    return tuple(-1 if axis in axes else size for axis, size in enumerate(shape))


def _forget(run: InfersShapes, body: ir.Graph) -> None:
    """Take back what was computed for a turn."""
    values = [out for node in body.all_nodes() for out in node.outputs]
    values += [one for graph in (body, *body.subgraphs()) for one in graph.inputs[2:]]
    for value in values:
        run.shapes.pop(name_of(value), None)
        run.values.pop(name_of(value), None)


def _distrust(body: ir.Graph) -> None:
    """Remove the declared shapes of a body: where turns change sizes, they are of the first one."""
    for node in body.all_nodes():
        for value in node.outputs:
            value.shape = None


def _enter_sizes(
    run: InfersShapes, value: ir.Value, sizes: Sequence[int], unsure: bool = False
) -> None:
    """Enter a shape of which sizes of -1 are unsure."""
    run.enter(value, run.unsure.shape(sizes))
    if unsure or -1 in sizes:
        run.unsure.values.add(name_of(value))


BODIES: Mapping[str, Callable[[InfersShapes, ir.Node], None]] = {"If": branches, "Loop": loop}


def inherit(value: ir.Value, other: ir.Value) -> None:
    """Give a value without a dtype that of another."""
    if value.dtype is None and other.dtype is not None:
        value.dtype = other.dtype


def name_of(value: ir.Value) -> str:
    """The name of a value, which all values of a uniform model have."""
    assert value.name is not None
    return value.name
