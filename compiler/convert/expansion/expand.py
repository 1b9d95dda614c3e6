"""Expansion of a model: all nodes that have one, those in branches and loops too."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import Parameter, signature

import onnx_ir as ir

from ...source_graph.source_graph import SourceGraph, operator
from .expander import Expander
from .registry import Expansion, expansions

FAULT = "rankmesh.fault"
"""The key in a node's `meta` of the reason why it was not expanded."""


def expand(source: SourceGraph) -> bool:
    """Expand the nodes of a graph, and tell whether there were any. One that cannot be expanded
    stays, and has the reason.
    """
    known, expanded = expansions(), False
    found = [node for node in source.model.graph.all_nodes() if operator(node) in known]
    parts: dict[ir.Node, Sequence[ir.Value]] = {}
    for node in found:
        expander = Expander(node, source, parts)
        try:
            _replace(node, _results(known[operator(node)], expander))
            expanded = True
        except (ValueError, TypeError) as error:
            node.meta[FAULT] = str(error)
            expander.withdraw()
    return expanded


def _results(function: Expansion, expander: Expander) -> Sequence[ir.Value | None]:
    node = expander.node
    attributes = {key: one.value for key, one in node.attributes.items()}
    parameters = signature(function).parameters.values()
    taken = {one.name for one in parameters if one.kind is Parameter.KEYWORD_ONLY}
    unknown = sorted(set(attributes) - taken)
    if unknown and all(one.kind is not Parameter.VAR_KEYWORD for one in parameters):
        raise ValueError(f"the attribute '{unknown[0]}' is not supported")
    found = function(expander, *node.inputs, **attributes)
    results = [found] if isinstance(found, ir.Value) else list(found)
    results += [None] * (len(node.outputs) - len(results))
    for index, (value, result) in enumerate(zip(node.outputs, results, strict=False)):
        if result is None and (value.uses() or value.is_graph_output()):
            raise ValueError(f"its output {index} is not supported")
    return results


def _replace(node: ir.Node, results: Sequence[ir.Value | None]) -> None:
    """Put the results in the place of the outputs of a node, and remove it."""
    for old, new in zip(node.outputs, results, strict=False):
        if new is not None:
            if new.producer() is None or new.is_graph_input():
                new = _copied(node, new)
            new.type, new.shape, name = old.type, old.shape, old.name
            old.replace_all_uses_with(new, replace_graph_outputs=True)
            old.name, new.name = None, name
    assert node.graph is not None
    node.graph.remove(node, safe=True)


def _copied(node: ir.Node, value: ir.Value) -> ir.Value:
    copy = ir.node("Identity", [value])
    node.prepend(copy)
    return copy.outputs[0]
