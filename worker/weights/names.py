"""From the name that a user gives a weight to the weight of the plan that is meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence

from onnx import GraphProto, NodeProto

from ...comm.errors import InputError
from ..onnx_values import subgraphs
from ..plan import Plan
from .node_path import node_path, scope_path

_ENDS = ("weight", "alpha")
_TOLD = 5
_PRODUCTS = frozenset({"MatMul", "Gemm", "Conv", "ConvTranspose", "Gather"})


class WeightNames:
    """The names of a plan's live weights: the parameters' own first, then the paths of the nodes that use them."""

    def __init__(self, plan: Plan, weights: Sequence[str], variable: Mapping[str, str]) -> None:
        """`variable` are names that the user listed, each with its node's path or "". InputError for unknown ones."""
        self._path, self._weights = plan.path, dict.fromkeys(weights)
        self._states = {state.value for state in plan.states}
        self.others = frozenset(self._states.union(plan.unused))
        """Parameters of the model's file that no update means: no node takes them, or the model assigns to them."""

        self._nodes: dict[str, dict[str, None]] = {}
        for segment in plan.segments:
            for path, name in _by_path(segment.model.graph, self._weights):
                self._nodes.setdefault(path, {})[name] = None
        self._variable = variable
        self.listed = [self.find(name) for name in variable]

    def known(self, name: str) -> bool:
        """Whether `find` finds it; that is told quickly, without the nearest names."""
        return name in self._weights or (
            name not in self._states and len(self._nodes.get(self._path_of(name), ())) == 1)

    def find(self, name: str) -> str:
        """The weight that `name` means; InputError where it means none or several, with the nearest names."""
        if name in self._weights:
            return name
        if name in self._states:
            raise InputError(f"'{name}' of {self._path} cannot be updated: the model itself assigns to it. Build the "
                             f"model anew to start from other values.")
        path = self._path_of(name)
        found = list(self._nodes.get(path, ()))
        if len(found) == 1:
            return found[0]
        if found:
            raise InputError(f"'{name}' means the node {path} of {self._path}, which uses {found}: name one of them.")
        raise InputError(self._unknown(name, path))

    def _path_of(self, name: str) -> str:
        """The path of the node that a name stands for; "" where it can only be a parameter's."""
        if self._variable.get(name) or name.startswith("/"):
            return self._variable.get(name) or name
        return node_path(name) if name.endswith(_ENDS) else ""

    def _unknown(self, name: str, path: str) -> str:
        near = difflib.get_close_matches(name, [*self._weights, *self._nodes], 3, 0.5)
        known = f"near: {', '.join(near)}" if near else f"it has {', '.join([*self._weights][:_TOLD]) or 'none'}, ..."
        return f"{self._path} has no weight '{name}'{f', nor a node {path} with one' if path else ''}; {known}."


def _by_path(graph: GraphProto, weights: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Each product's path, and the matrix, kernel or table among its operands."""
    made = {output: node for node in graph.node for output in node.output}
    for node in graph.node:
        for inner in subgraphs(node):
            yield from _by_path(inner, weights)
        if node.op_type in _PRODUCTS:
            for operand in node.input[:2]:
                name = _behind(operand, made)
                if name in weights:
                    yield from ((path, name) for path in _paths(node))


def _behind(name: str, made: Mapping[str, NodeProto]) -> str:
    """The tensor that a value is a turned, cast or reshaped form of."""
    while name in made and made[name].op_type in ("Transpose", "Cast", "Reshape", "Identity"):
        name = made[name].input[0]
    return name


def _paths(node: NodeProto) -> Iterator[str]:
    for label in (node.name, *node.doc_string.split("\n")):
        path = scope_path(label)
        if path != "/":  # of nodes outside any layer, which no name stands for
            yield path
