"""Which weights a session computes with only once, when it is made: those behind nodes that take constants alone."""

from __future__ import annotations

from collections.abc import Mapping

from onnx import GraphProto, NodeProto

from .onnx_values import subgraphs, uses

_VIEWS = frozenset({"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze"})
_RANDOM = frozenset({"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
                     "RandomUniformLike"})
Roots = Mapping[str, frozenset[str]]


def folded(graph: GraphProto, weights: set[str]) -> set[str]:
    """Those of `weights`, initializers of `graph`, that some node takes together with nothing but constants.

    A session computes such a node (a Transpose, a Cast) when it is made; a node that only gives a tensor another
    shape costs nothing in a run, and what takes its result decides.
    """
    found: set[str] = set()
    _walk(graph, {record.name: frozenset({record.name} & weights) for record in graph.initializer}, found)
    return found


def _walk(graph: GraphProto, outer: Roots, found: set[str]) -> None:
    """Add to `found`; `outer` has the constants around the graph, and each one's weights."""
    roots = {**outer, **{record.name: outer.get(record.name, frozenset()) for record in graph.initializer}}
    for node in graph.node:
        inner = list(subgraphs(node))
        for body in inner:
            _walk(body, roots, found)
        if inner or not _constant(node, roots):
            continue
        behind = frozenset[str]().union(*(roots[name] for name in uses(node)))
        if node.op_type in _VIEWS and not node.domain:
            roots.update(dict.fromkeys(node.output, behind))
        else:
            found |= behind
            roots.update(dict.fromkeys(node.output, frozenset()))


def _constant(node: NodeProto, roots: Roots) -> bool:
    return node.op_type not in _RANDOM and all(name in roots for name in uses(node))
