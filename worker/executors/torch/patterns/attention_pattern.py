"""Attention pattern: the products and the softmax of attention, found in a graph as one node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnx import GraphProto, NodeProto, helper

from .node_uses import NodeUses, cast_target

DOMAIN, OPERATOR = "rankmesh.torch", "AttendedValues"
"""Its inputs: queries, keys (transposed), values, scale, condition, filler, bias, and the number in
place of NaN, if there is one."""
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

    Only values that nothing else takes are replaced. A Where may put a number in place of NaN, the
    softmax of a row that is hidden whole: exporters write torch's own attention so.
    """
    chains = _Chains(graph)
    made: dict[str, NodeProto] = {}
    gone: set[str] = set()
    for node in graph.node:
        guard = chains.guard(node)
        casts = chains.casts(node)
        chain = chains.of(node, guard, casts)
        if chain:
            made[node.output[0]] = _attention(node, chain, guard, casts)
            gone.update(one.output[0] for one in (*guard, *casts, *(one for one, _ in chain)))
    return [
        made.get(node.output[0], node)
        for node in graph.node
        if not node.output or node.output[0] not in gone
    ]


class _Chains(NodeUses):
    """The nodes from a product to a softmax; a value has one maker and here one use."""

    def guard(self, last: NodeProto) -> list[NodeProto]:
        """The Where before a product with values that replaces NaN, and its IsNaN; else none."""
        chosen = self.maker(last.input[0], ("Where",), 1) if _multiplies(last) else None
        tested = self.maker(chosen.input[0], ("IsNaN",), 1) if chosen else None
        if chosen is None or tested is None or tested.input[0] != chosen.input[2]:
            return []
        return [chosen, tested]

    def casts(self, last: NodeProto) -> list[NodeProto]:
        """The Casts to one type before a product with values; exporters write them for float32."""
        found: list[NodeProto] = []
        name = last.input[0] if _multiplies(last) else ""
        while (node := self.maker(name, ("Cast",), 1)) and cast_target(node) == cast_target(
            (*found, node)[0]
        ):
            found.append(node)
            name = node.input[0]
        return found

    def of(
        self, last: NodeProto, guard: Sequence[NodeProto], casts: Sequence[NodeProto]
    ) -> list[tuple[NodeProto, int]]:
        """The nodes before a product with values, its softmax first, and where each has scores."""
        if not _multiplies(last):
            return []
        if guard:
            return self._to(guard[1].input[0], ("Softmax",), 2)
        return self._to((casts[-1] if casts else last).input[0], ("Softmax",))

    def _to(self, name: str, kinds: tuple[str, ...], uses: int = 1) -> list[tuple[NodeProto, int]]:
        node = self.maker(name, kinds, uses)
        if node is None:
            return []
        if node.op_type == "MatMul":
            return [(node, 0)]
        for at in _SCORES[node.op_type]:
            rest = self._to(node.input[at], _BEFORE[node.op_type])
            if rest:
                return [(node, at), *rest]
        return []


def _multiplies(node: NodeProto) -> bool:
    return node.op_type == "MatMul" and not node.domain


def _attention(
    last: NodeProto,
    chain: list[tuple[NodeProto, int]],
    guard: Sequence[NodeProto],
    casts: Sequence[NodeProto],
) -> NodeProto:
    found: Mapping[str, tuple[NodeProto, int]] = {one.op_type: (one, at) for one, at in chain}
    product, softmax = chain[-1][0], chain[0][0]
    scaled, at = found.get("Mul") or found.get("Div") or (None, 0)
    scale = "" if scaled is None else scaled.input[1 - at]
    chosen = found.get("Where")
    condition, filler = ("", "") if chosen is None else (chosen[0].input[0], chosen[0].input[2])
    added = found.get("Add")
    bias = "" if added is None else added[0].input[1 - added[1]]
    whole = guard[0].input[1] if guard else ""
    axes = [one.i for one in softmax.attribute if one.name == "axis"]
    return helper.make_node(
        OPERATOR,
        [*product.input, last.input[1], scale, condition, filler, bias, whole],
        list(last.output),
        name=last.name,
        domain=DOMAIN,
        axis=axes[0] if axes else -1,
        divides=int("Div" in found),
        to=cast_target(casts[0]) if casts else 0,
    )
