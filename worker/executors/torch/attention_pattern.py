"""Attention pattern: the products and the softmax of attention, found in a graph as one node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from onnx import GraphProto, NodeProto, helper

from ...onnx_graph.onnx_values import captured

DOMAIN, OPERATOR = "rankmesh.torch", "AttendedValues"
"""Its inputs: queries, keys (transposed), values, scale, condition, filler, bias."""
_BEFORE = {
    "Softmax": ("Add", "Where", "Mul", "Div", "MatMul"),
    "Add": ("Where", "Mul", "Div", "MatMul"),
    "Where": ("Mul", "Div", "MatMul"),
    "Mul": ("MatMul",),
    "Div": ("MatMul",),
}
"""The kinds of nodes that may make the scores of another."""
_SCORES = {"Softmax": (0,), "Add": (0, 1), "Where": (1,), "Mul": (0, 1), "Div": (0,)}
"""The inputs of a node that may be these scores."""


def with_attention(graph: GraphProto) -> list[NodeProto]:
    """The nodes of a graph, with one in place of those that are Softmax(Q * K * scale + bias) * V.

    Only values that nothing else takes are replaced.
    """
    chains = _Chains(graph)
    made: dict[str, NodeProto] = {}
    gone: set[str] = set()
    for node in graph.node:
        chain = chains.of(node)
        if chain:
            made[node.output[0]] = _attention(node, chain)
            gone.update(one.output[0] for one, _ in chain)
    return [
        made.get(node.output[0], node)
        for node in graph.node
        if not node.output or node.output[0] not in gone
    ]


class _Chains:
    """The nodes from a product to a softmax; a value has one maker and here one use."""

    def __init__(self, graph: GraphProto) -> None:
        self._makers = {name: node for node in graph.node for name in node.output}
        self._uses = Counter(info.name for info in graph.output)
        for node in graph.node:
            self._uses.update((*node.input, *captured(node)))

    def of(self, last: NodeProto) -> list[tuple[NodeProto, int]]:
        """The nodes before a product with values, its softmax first, and where each has scores."""
        if last.op_type != "MatMul" or last.domain:
            return []
        return self._to(last.input[0], ("Softmax",))

    def _to(self, name: str, kinds: tuple[str, ...]) -> list[tuple[NodeProto, int]]:
        node = self._makers.get(name)
        if node is None or node.domain or node.op_type not in kinds or self._uses[name] != 1:
            return []
        if node.op_type == "MatMul":
            return [(node, 0)]
        for at in _SCORES[node.op_type]:
            rest = self._to(node.input[at], _BEFORE[node.op_type])
            if rest:
                return [(node, at), *rest]
        return []


def _attention(last: NodeProto, chain: list[tuple[NodeProto, int]]) -> NodeProto:
    found: Mapping[str, tuple[NodeProto, int]] = {one.op_type: (one, at) for one, at in chain}
    product, softmax = chain[-1][0], chain[0][0]
    scaled, at = found.get("Mul") or found.get("Div") or (None, 0)
    scale = "" if scaled is None else scaled.input[1 - at]
    chosen = found.get("Where")
    condition, filler = ("", "") if chosen is None else (chosen[0].input[0], chosen[0].input[2])
    added = found.get("Add")
    bias = "" if added is None else added[0].input[1 - added[1]]
    axes = [one.i for one in softmax.attribute if one.name == "axis"]
    return helper.make_node(
        OPERATOR,
        [*product.input, last.input[1], scale, condition, filler, bias],
        list(last.output),
        name=last.name,
        domain=DOMAIN,
        axis=axes[0] if axes else -1,
        divides=int("Div" in found),
    )
