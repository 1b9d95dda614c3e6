"""Own names: each node and value of a model gets a name that no other one has.

ONNX lets two bodies use one name, and a graph use it again behind them. Our tables of values and
nodes have these names as keys.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir


class OwnNames(ir.passes.InPlacePass):
    """The pass; those of the main graph stay. All have names, each its own inside its graph."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """See ir.passes.PassBase."""
        graphs = [model.graph, *model.graph.subgraphs()]
        nodes = [node for graph in graphs for node in graph]
        values = [value for graph in graphs for value in _values(graph)]
        renamed = [_rename_repeated(nodes), _rename_repeated(values)]
        return ir.passes.PassResult(model, modified=any(renamed))


def _values(graph: ir.Graph) -> list[ir.Value]:
    """The values that a graph has itself; an input with an initializer is both."""
    given = dict.fromkeys([*graph.inputs, *graph.initializers.values()])
    return [*given, *(value for node in graph for value in node.outputs)]


def _rename_repeated(named: Iterable[ir.Node | ir.Value]) -> bool:
    """Give another name to each whose name one before it has; whether there were such ones."""
    owners: dict[str, ir.Node | ir.Value] = {}
    again = [one for one in named if owners.setdefault(str(one.name), one) is not one]
    number = 0
    for one in again:
        name = str(one.name)
        while (fresh := f"{name}_{number}") in owners:
            number += 1
        one.name = fresh
        owners[fresh] = one
    return bool(again)
