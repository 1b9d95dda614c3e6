"""Calls of local functions: the nodes of the function take the place of each call.

The attributes of a call are bound from the outside inwards, so that an attribute that a call leaves
out has the function's default, on any depth. onnx.inliner drops these defaults, and onnx-ir refuses
functions of another opset: https://onnx.ai/onnx/repo-docs/IR.html#functions
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableSequence, Sequence

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto

from ....comm.errors import ModelError
from ...onnx_graph.onnx_values import all_nodes, graph_names, rename_values, subgraphs
from .function_bounds import Key, check_bounds
from .function_opsets import FunctionOpsets
from .node_order import order_stretch

Attributes = Mapping[str, AttributeProto]


def expand_calls(model: ModelProto, path: str) -> None:
    """Put the nodes of functions in the place of their calls, in place, and remove the functions.

    Raises ModelError, which names `path`, where functions call themselves, make the model far too
    large, do not fit their calls, or are of an opset that cannot be brought to the model's.
    """
    check_bounds(model, path)
    for function in model.functions:
        order_stretch(function.node, path)
    _Expansion(model, path).expand(model.graph)
    del model.functions[:]


class _Expansion:
    """The functions of a model, and the names that its values have so far."""

    def __init__(self, model: ModelProto, path: str) -> None:
        self._path = path
        self._functions = {(one.domain, one.name, one.overload): one for one in model.functions}
        self._opsets = FunctionOpsets(model, path)
        self._taken = dict.fromkeys(graph_names(model.graph), 0)

    def expand(self, graph: GraphProto) -> None:
        """Put the nodes of functions in the place of their calls, in graphs inside as well."""
        if any(_key(node) in self._functions for node in all_nodes(graph.node)):
            self._replace(graph.node)

    def _replace(self, nodes: MutableSequence[NodeProto]) -> None:
        found = list(self._written_out(nodes))
        del nodes[:]
        nodes.extend(found)

    def _written_out(self, nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
        for node in nodes:
            function = self._functions.get(_key(node))
            if function is not None:
                yield from self._written_out(self._body(node, function))
                continue
            own = NodeProto()
            own.CopyFrom(node)
            for graph in subgraphs(own):
                self.expand(graph)
            yield own

    def _body(self, call: NodeProto, function: FunctionProto) -> list[NodeProto]:
        """The nodes of a function for one call: its attributes, and names of their own."""
        self._check(call, function)
        body = FunctionProto()
        body.CopyFrom(function)
        _separate_outputs(body)
        bound = _bound(call, function)
        _bind(body.node, {name: one for name, one in bound.items() if not _is_graph(one)})
        self._opsets.adapt(body)
        rename_values(body.node, self._names(call, body))
        _bind(body.node, bound)  # graphs see the values around the call, not the function's
        for node in body.node:
            node.name = _name(call, node)
        return list(body.node)

    def _names(self, call: NodeProto, body: FunctionProto) -> dict[str, str]:
        """The names that the values of a function have in the graph of a call."""
        absent = [""] * len(body.input)
        names = dict(zip(body.input, [*call.input, *absent], strict=False))
        results = zip(body.output, call.output, strict=False)
        names.update((mine, given) for mine, given in results if given)
        for name in _made(body.node):
            if name not in names:
                names[name] = self._fresh(name)
        return names

    def _check(self, call: NodeProto, function: FunctionProto) -> None:
        for what, given, most in (
            ("inputs", call.input, function.input),
            ("outputs", call.output, function.output),
        ):
            if len(given) > len(most):
                raise ModelError(
                    f"{self._path}: the node {call.name or call.op_type} calls the local function "
                    f"'{function.name}' with {len(given)} {what}, and it has {len(most)}. Export "
                    "the model again."
                )

    def _fresh(self, name: str) -> str:
        fresh = name
        while fresh in self._taken:
            self._taken[name] = self._taken.get(name, 0) + 1
            fresh = f"{name}_{self._taken[name]}"
        self._taken[fresh] = 0
        return fresh


def _key(node: NodeProto) -> Key:
    return node.domain, node.op_type, node.overload


def _bound(call: NodeProto, function: FunctionProto) -> Attributes:
    """The attributes of a call, with the function's defaults for those that it leaves out."""
    defaults = {one.name: one for one in function.attribute_proto}
    return {**defaults, **{one.name: one for one in call.attribute}}


def _separate_outputs(body: FunctionProto) -> None:
    """Let each output be a value of its own, also where it is an input or another output."""
    used = set(body.input)
    for place, name in enumerate(body.output):
        if name in used:
            copy = f"{name}.{place}"
            body.node.add(op_type="Identity", input=[name], output=[copy])
            body.output[place] = copy
        used.add(name)


def _made(nodes: Sequence[NodeProto]) -> Iterator[str]:
    """The values that nodes and the graphs inside make or state, each name once."""
    names = dict.fromkeys(name for node in nodes for name in node.output if name)
    for node in nodes:
        for graph in subgraphs(node):
            names.update(dict.fromkeys(graph_names(graph)))
    yield from names


def _is_graph(attribute: AttributeProto) -> bool:
    return attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS)


def _bind(nodes: Iterable[NodeProto], bound: Attributes) -> None:
    """Replace references to attributes of the function, those to graphs where `bound` has them."""
    for node in nodes:
        for graph in subgraphs(node):
            _bind(graph.node, bound)
        if any(attribute.ref_attr_name for attribute in node.attribute):
            found = list(_values(node.attribute, bound))
            del node.attribute[:]
            node.attribute.extend(found)


def _values(attributes: Iterable[AttributeProto], bound: Attributes) -> Iterator[AttributeProto]:
    for attribute in attributes:
        source = attribute.ref_attr_name
        if source in bound:
            value = AttributeProto()
            value.CopyFrom(bound[source])
            value.name = attribute.name
            yield value
        elif not source or _is_graph(attribute):
            yield attribute


def _name(call: NodeProto, node: NodeProto) -> str:
    """The name of a function's node in the graph of a call, whose values have their names there.

    onnxruntime refuses two nodes of one name, so that nodes without one are told by their results.
    """
    label = f"{call.name or call.op_type}/{node.name or node.op_type}"
    if call.name and node.name:
        return label
    return "/".join([label, *filter(None, node.output[:1])])
