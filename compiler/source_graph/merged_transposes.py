"""Merged transposes: Transpose nodes take the place of those on merged axes.

Exporters write the transpose of keys as a Reshape that merges batch and heads, a Transpose of three
axes, and a Reshape that parts them again. Heads behind an open batch could not be split there.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir
from onnx_ir.passes import common as passes

from .dims import Dims, product


def part_merged_transposes(model: ir.Model, dims: Mapping[str, Dims]) -> dict[str, Dims]:
    """Transpose the last two axes of values without merging the others; the dims that are left."""
    before = _results(model)
    for node in list(model.graph):
        source = _merged(node, dims) if node.op_type == "Reshape" else None
        if source is not None:
            _transpose(source, node, len(dims[str(source.name)]))
    passes.RemoveUnusedNodesPass()(model)
    gone = before - _results(model)
    return {name: one for name, one in dims.items() if name not in gone}


def _results(model: ir.Model) -> set[str]:
    return {str(value.name) for node in model.graph for value in node.outputs}


def _merged(last: ir.Node, dims: Mapping[str, Dims]) -> ir.Value | None:
    """The value whose last two axes are transposed on the way to the output of `last`."""
    middle = _producer(last, "Transpose")
    first = _producer(middle, "Reshape") if middle is not None else None
    if middle is None or first is None or list(_order(middle)) != [0, 2, 1]:
        return None
    source = first.inputs[0]
    assert source is not None
    values = (source, first.outputs[0], last.outputs[0])
    before, merged, after = (dims.get(str(value.name), ()) for value in values)
    if len(before) < 4 or not merged:
        return None
    *lead, rows, columns = before
    whole = product(lead, len(rows))
    same = merged == (whole, rows, columns) and after == (*lead, columns, rows)
    return source if same else None


def _producer(node: ir.Node, kind: str) -> ir.Node | None:
    """The node that makes the first input of `node` alone, if it is of a kind."""
    value = node.inputs[0]
    found = value.producer() if value is not None else None
    if value is None or found is None or len(value.uses()) > 1 or value.is_graph_output():
        return None
    return found if found.op_type == kind and found.domain in ("", "ai.onnx") else None


def _order(node: ir.Node) -> tuple[int, ...]:
    order = node.attributes.get("perm")
    return tuple(order.as_ints()) if order is not None else ()


def _transpose(source: ir.Value, last: ir.Node, axes: int) -> None:
    """Let a Transpose make the output of `last`, with its names."""
    assert last.graph is not None
    old = last.outputs[0]
    made = ir.node("Transpose", [source], {"perm": [*range(axes - 2), axes - 1, axes - 2]})
    last.append(made)
    new = made.outputs[0]
    new.type, new.shape, made.name, name = old.type, old.shape, last.name, old.name
    old.replace_all_uses_with(new, replace_graph_outputs=True)
    last.graph.remove(last, safe=True)
    new.name = name
