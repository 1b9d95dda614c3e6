"""Which functions of a model name which others: what may call what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from functools import cached_property

from ..mindir.graph import Graph, Model
from .live import live_nodes


class CallGraph:
    """Functions and what they name, as callee or as a value. A loop is a function that reaches itself."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._found: dict[tuple[str, str, frozenset[str]], bool] = {}

    @cached_property
    def _named(self) -> Mapping[str, Counter[str]]:
        return {name: _names(graph, self._model.functions) for name, graph in self._model.functions.items()}

    @cached_property
    def _callers(self) -> Counter[str]:
        total = _names(self._model.entry, self._model.functions)
        for names in self._named.values():
            total.update(names)
        return total

    def shared(self, name: str) -> bool:
        """Whether more than one place names a function."""
        return self._callers[name] > 1

    def reaches(self, start: str, end: str, without: Collection[str] = ()) -> bool:
        """Whether calls may lead from `start` to `end` by one or more steps, none of them over `without`."""
        key = (start, end, frozenset(without))
        if key not in self._found:
            self._found[key] = self._search(start, end, set(without))
        return self._found[key]

    def _search(self, start: str, end: str, seen: set[str]) -> bool:
        stack = [start]
        while stack:
            for name in self._named[stack.pop()]:
                if name == end:
                    return True
                if name not in seen:
                    seen.add(name)
                    stack.append(name)
        return False


def _names(graph: Graph, functions: Mapping[str, Graph]) -> Counter[str]:
    named = [key for node in live_nodes(graph) for key in (*node.inputs, node.target)]
    return Counter(key for key in (*named, graph.output) if key in functions)
