"""Node uses: the makers of a graph's values, and how often each value is taken."""

from __future__ import annotations

from collections import Counter

from onnx import GraphProto, NodeProto

from .....compiler.onnx_graph.onnx_values import captured


class NodeUses:
    """The nodes of a graph, as patterns of several nodes look for them."""

    def __init__(self, graph: GraphProto) -> None:
        self._makers = {name: node for node in graph.node for name in node.output}
        self._uses = Counter(info.name for info in graph.output)
        for node in graph.node:
            self._uses.update((*node.input, *captured(node)))

    def maker(self, name: str, kinds: tuple[str, ...], uses: int) -> NodeProto | None:
        """The maker of a value, if it is of these kinds and the value has so many uses."""
        node = self._makers.get(name)
        if node is None or node.domain or node.op_type not in kinds or self._uses[name] != uses:
            return None
        return node


def cast_target(cast: NodeProto) -> int:
    """The element type of a Cast."""
    return next(one.i for one in cast.attribute if one.name == "to")
