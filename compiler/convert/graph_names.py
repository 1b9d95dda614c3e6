"""Names in graphs: the nodes that outputs need, and the outer values that bodies take."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

import onnx_ir as ir


def name_of(value: ir.Value) -> str:
    """The name of a value, which all have in a uniform model."""
    assert value.name is not None
    return value.name


def needed_nodes(
    nodes: Sequence[ir.Node], outputs: Sequence[ir.Value], constants: Container[str]
) -> list[ir.Node]:
    """The nodes that the outputs need, in order; those that compute constants are left out."""
    wanted = {name_of(value) for value in outputs}
    found = []
    for node in reversed(nodes):
        if any(name in wanted and name not in constants for name in map(name_of, node.outputs)):
            found.append(node)
            wanted |= {name_of(one) for one in taken(node)}
    return found[::-1]


def taken(node: ir.Node) -> Iterator[ir.Value]:
    """The inputs of a node, and the outer values that its bodies take."""
    yield from (one for one in node.inputs if one is not None)
    for body in bodies(node):
        yield from captured(body)


def captured(body: ir.Graph) -> list[ir.Value]:
    """The values of outer graphs that a body takes, each once, in the order of their use."""
    own = {name_of(one) for one in body.inputs} | set(body.initializers)
    found: dict[str, ir.Value] = {}
    for node in body:
        for value in taken(node):
            if name_of(value) not in own:
                found.setdefault(name_of(value), value)
        own |= {name_of(one) for one in node.outputs}
    for value in body.outputs:
        if name_of(value) not in own:
            found.setdefault(name_of(value), value)
    return list(found.values())


def bodies(node: ir.Node) -> list[ir.Graph]:
    """The graphs in the attributes of a node."""
    return [one.value for one in node.attributes.values() if one.type == ir.AttributeType.GRAPH]
