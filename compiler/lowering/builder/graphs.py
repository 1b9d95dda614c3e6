"""ONNX graphs: lists of nodes without unused nodes and initializers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, helper

from ...onnx_graph.collective_nodes import DOMAIN
from ...onnx_graph.onnx_values import belongs, uses
from .tensor import OnnxTensor, declaration

_CONTROL = ("If", "Loop")


def whole_graph(
    nodes: Sequence[NodeProto],
    inputs: Sequence[OnnxTensor],
    outputs: Sequence[OnnxTensor],
    initializers: Mapping[str, TensorProto],
    declared: Mapping[str, OnnxTensor],
) -> GraphProto:
    """The graph of a model, with the initializers used. `declared` are types by name."""
    kept, needed = _pruned(nodes, outputs)
    for node in kept:
        if (node.domain, node.op_type) == (DOMAIN, "Assign"):
            needed.update(attribute.s.decode() for attribute in node.attribute)
    return helper.make_graph(
        kept,
        "model",
        [declaration(tensor) for tensor in inputs],
        [declaration(tensor) for tensor in outputs],
        initializer=[record for name, record in initializers.items() if name in needed],
        value_info=_between(kept, outputs, declared),
    )


def inner_graph(
    name: str,
    nodes: Sequence[NodeProto],
    inputs: Sequence[OnnxTensor],
    outputs: Sequence[OnnxTensor],
    declared: Mapping[str, OnnxTensor],
) -> GraphProto:
    """The graph of a branch or body, which makes its outputs; it may use all values around it."""
    kept, _ = _pruned(nodes, outputs)
    return helper.make_graph(
        kept,
        name,
        [declaration(tensor) for tensor in inputs],
        [declaration(tensor) for tensor in outputs],
        value_info=_between(kept, outputs, declared),
    )


def has_collective(nodes: Iterable[NodeProto]) -> bool:
    """Whether there is a collective among nodes, their branches and bodies."""
    return any(belongs(node, DOMAIN) for node in nodes)


def _between(
    nodes: Sequence[NodeProto], outputs: Sequence[OnnxTensor], declared: Mapping[str, OnnxTensor]
) -> list[ValueInfoProto]:
    """The declared types of values that are made and not returned."""
    made = {name for node in nodes for name in node.output} - {tensor.name for tensor in outputs}
    return [declaration(tensor) for name, tensor in declared.items() if name in made]


def _pruned(
    nodes: Sequence[NodeProto], outputs: Sequence[OnnxTensor]
) -> tuple[list[NodeProto], set[str]]:
    """The nodes that communicate or that `outputs` need, and the names of all that they take."""
    needed = {tensor.name for tensor in outputs}
    kept = []
    for node in reversed(nodes):
        control = node.op_type in _CONTROL
        wanted = node.domain == DOMAIN or not needed.isdisjoint(node.output)
        if wanted or (control and has_collective((node,))):
            kept.append(node)
            needed.update(uses(node) if control else node.input)
    return kept[::-1], needed
