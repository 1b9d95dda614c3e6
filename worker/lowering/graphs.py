"""Lists of nodes as ONNX graphs, without what nothing uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, helper

from ..collective_nodes import DOMAIN
from ..onnx_values import belongs, uses
from .tensor import Tensor, described

_CONTROL = ("If", "Loop")


def whole_graph(nodes: Sequence[NodeProto], inputs: Sequence[Tensor], outputs: Sequence[Tensor],
                initializers: Mapping[str, TensorProto], declared: Mapping[str, Tensor]) -> GraphProto:
    """The graph of a model. `declared` are the types of values by name; the initializers that are used come along."""
    kept, needed = _pruned(nodes, outputs)
    needed.update(attribute.s.decode() for node in kept if (node.domain, node.op_type) == (DOMAIN, "Assign")
                  for attribute in node.attribute)
    return helper.make_graph(
        kept, "model", [described(t) for t in inputs], [described(t) for t in outputs],
        initializer=[record for name, record in initializers.items() if name in needed],
        value_info=_between(kept, outputs, declared))


def inner_graph(name: str, nodes: Sequence[NodeProto], inputs: Sequence[Tensor], outputs: Sequence[Tensor],
                declared: Mapping[str, Tensor]) -> GraphProto:
    """The graph of a branch or body, every output made inside; other values and initializers are those around it."""
    kept, _ = _pruned(nodes, outputs)
    return helper.make_graph(kept, name, [described(t) for t in inputs], [described(t) for t in outputs],
                             value_info=_between(kept, outputs, declared))


def acts(nodes: Iterable[NodeProto]) -> bool:
    """Whether there is a collective among nodes, their branches and bodies."""
    return any(belongs(node, DOMAIN) for node in nodes)


def _between(nodes: Sequence[NodeProto], outputs: Sequence[Tensor],
             declared: Mapping[str, Tensor]) -> list[ValueInfoProto]:
    """The declared types of what nodes make and the graph does not return."""
    made = {name for node in nodes for name in node.output} - {tensor.name for tensor in outputs}
    return [described(tensor) for name, tensor in declared.items() if name in made]


def _pruned(nodes: Sequence[NodeProto], outputs: Sequence[Tensor]) -> tuple[list[NodeProto], set[str]]:
    """The nodes that act or that `outputs` need, and the names of all that they take."""
    needed = {tensor.name for tensor in outputs}
    kept = []
    for node in reversed(nodes):
        control = node.op_type in _CONTROL
        if node.domain == DOMAIN or not needed.isdisjoint(node.output) or (control and acts((node,))):
            kept.append(node)
            needed.update(uses(node) if control else node.input)
    return kept[::-1], needed
