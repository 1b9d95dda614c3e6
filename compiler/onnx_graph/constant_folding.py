"""Constant folding: the weights that a session uses only while it is made."""

from __future__ import annotations

from collections.abc import Mapping

from onnx import GraphProto

from .onnx_values import subgraphs, uses

_VIEWS = frozenset({"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze"})
RANDOM = frozenset(
    {
        "Bernoulli",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    }
)
"""Operators that give other numbers at each run."""

Roots = Mapping[str, frozenset[str]]


def folded(graph: GraphProto, weights: set[str]) -> set[str]:
    """Those of `weights`, initializers of `graph`, that some node takes together with constants
    alone.

    A session computes such a node (a Transpose, a Cast) when it is made. A node that only gives a
    tensor another shape costs nothing in a run; the nodes behind it decide.
    """
    found: set[str] = set()
    _walk(
        graph,
        {record.name: frozenset({record.name} & weights) for record in graph.initializer},
        found,
    )
    return found


def _walk(graph: GraphProto, outer: Roots, found: set[str]) -> None:
    """Add to `found`; `outer` has the constants around the graph, and the weights behind each."""
    roots = {
        **outer,
        **{record.name: outer.get(record.name, frozenset()) for record in graph.initializer},
    }
    for node in graph.node:
        inner = list(subgraphs(node))
        for body in inner:
            _walk(body, roots, found)
        taken = uses(node)
        if inner or node.op_type in RANDOM or not all(name in roots for name in taken):
            continue
        behind = frozenset[str]().union(*(roots[name] for name in taken))
        if node.op_type in _VIEWS and not node.domain:
            roots.update(dict.fromkeys(node.output, behind))
        else:
            found |= behind
            roots.update(dict.fromkeys(node.output, frozenset()))
