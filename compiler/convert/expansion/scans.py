"""Scan: a Loop that takes a slice of each sequence by its turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from .expander import Expander
from .registry import expands

_BEGIN = np.iinfo(np.int64).min


@expands("Scan")
def scan(
    e: Expander,
    *inputs: ir.Value,
    body: ir.Graph,
    num_scan_inputs: int,
    scan_input_axes: Sequence[int] = (),
    scan_input_directions: Sequence[int] = (),
    scan_output_axes: Sequence[int] = (),
    scan_output_directions: Sequence[int] = (),
) -> Sequence[ir.Value]:
    """The states after the last slice, and what each slice gives, along an axis."""
    states, sequences = inputs[:-num_scan_inputs], inputs[-num_scan_inputs:]
    along, reverse = _all(scan_input_axes, sequences), _all(scan_input_directions, sequences)
    axes = [axis % e.rank(one) for axis, one in zip(along, sequences, strict=True)]
    count = _length(e, sequences[0], axes[0])
    taken = [_Sequence(*one) for one in zip(sequences, axes, reverse, strict=True)]
    last = e.op("Sub", count, e.constant(1)) if any(reverse) else count
    places = e.node.outputs[len(states) :]
    ranks = [e.rank(one) for one in places]  # all that may fail comes before the body changes
    _make_turns(body, len(states), taken, last)
    found = e.ops("Loop", count, None, *states, outputs=len(e.node.outputs), body=body)
    results = found[len(states) :]
    along, reverse = _all(scan_output_axes, results), _all(scan_output_directions, results)
    each = zip(results, places, ranks, along, reverse, strict=True)
    return [*found[: len(states)], *(_moved(e, *one) for one in each)]


@dataclass(frozen=True, slots=True)
class _Sequence:
    """A value whose slices along an axis the turns take, from the last on if `backwards`."""

    value: ir.Value
    axis: int
    backwards: int


def _all(given: Sequence[int], values: Sequence[ir.Value]) -> Sequence[int]:
    """An attribute with a number for each value; 0 where it is missing."""
    return given or (0,) * len(values)


def _length(e: Expander, value: ir.Value, axis: int) -> ir.Value:
    """The size of an axis, as a number."""
    size = e.sizes(value)[axis]
    if size is not None:
        return e.constant(size)
    return e.op("Gather", e.op("Shape", value), e.constant(axis), axis=0)


def _make_turns(
    body: ir.Graph, states: int, sequences: Sequence[_Sequence], last: ir.Value
) -> None:
    """Make the body of a Scan that of a Loop: `last` is the number of the last slice."""
    turn = _number("turn", body, ir.DataType.INT64)
    going = _number("going", body, ir.DataType.BOOL)
    slices = list(body.inputs)[states:]
    del body.inputs[states:]
    body.inputs[:0] = [turn, going]
    added = [ir.node("Identity", [going])]
    for formal, one in zip(slices, sequences, strict=True):
        place = turn
        if one.backwards:
            added.append(ir.node("Sub", [last, turn]))
            place = added[-1].outputs[0]
        added.append(ir.node("Gather", [one.value, place], {"axis": one.axis}))
        found = added[-1].outputs[0]
        found.type, found.shape = formal.type, formal.shape
        formal.replace_all_uses_with(found, replace_graph_outputs=True)
    nodes = list(body)
    body.extend(added) if not nodes else body.insert_before(nodes[0], added)
    body.outputs.insert(0, added[0].outputs[0])


def _number(name: str, body: ir.Graph, kind: ir.DataType) -> ir.Value:
    unique = f"{name}_of_{body.inputs[0].name}"
    return ir.Value(name=unique, type=ir.TensorType(kind), shape=ir.Shape([]))


def _moved(
    e: Expander, value: ir.Value, place: ir.Value, rank: int, axis: int, backwards: int
) -> ir.Value:
    """The results of all turns along another axis than the first, or in reverse."""
    sizes = list(e.sizes(place))
    axis %= rank
    rows = ir.Shape([sizes[axis], *sizes[:axis], *sizes[axis + 1 :]])
    value.type, value.shape = place.type, rows
    if backwards:
        bounds = [e.constant([one]) for one in (-1, _BEGIN, 0, -1)]
        value = e.op("Slice", value, *bounds)
        value.type, value.shape = place.type, rows
    order = list(range(1, rank))
    order.insert(axis, 0)
    return e.op("Transpose", value, perm=order) if axis else value
