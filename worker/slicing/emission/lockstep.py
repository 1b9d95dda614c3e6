"""Lockstep: the graphs of all ranks as one graph, in which collectives are ordinary nodes.

One onnxruntime session then runs all ranks at once, in one process: an AllReduce is a Sum, an
AllGather a Concat. So a plan is tried without processes, and thousands of plans in seconds.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

_REDUCTIONS = {"sum": "Sum", "max": "Max", "min": "Min"}


def merged(models: Sequence[ir.Model]) -> ir.Model:
    """One model that computes what the ranks compute together.

    Inputs are those of the first rank, and reach all. Output `y` of rank r is named `r{r}/y`. The
    models must have the same collectives in the same order; they are used up.
    """
    first = models[0]
    inputs = list(first.graph.inputs)
    for rank, model in enumerate(models):
        for own, common in zip(list(model.graph.inputs), inputs, strict=True):
            if own is not common:
                own.replace_all_uses_with(common, replace_graph_outputs=True)
        _rename(model.graph, f"r{rank}/")
        model.graph.inputs.clear()
    graph = ir.Graph(inputs, [], nodes=[], name="lockstep", opset_imports=first.opset_imports)
    for model in models:
        for name, weight in list(model.graph.initializers.items()):
            del model.graph.initializers[name]
            graph.register_initializer(weight)
    outputs = [value for model in models for value in model.graph.outputs]
    _merge_nodes(graph, models)
    for model in models:
        model.graph.outputs.clear()
    graph.outputs.extend(_as_output(graph, value) for value in outputs)
    return ir.Model(graph, ir_version=first.ir_version or 10)


def _rename(graph: ir.Graph, prefix: str) -> None:
    for value in list(graph.initializers.values()):
        value.name = prefix + str(value.name)
    for node in graph.all_nodes():
        node.name = prefix + str(node.name)
        for value in node.outputs:
            if value.name:
                value.name = prefix + value.name


def _as_output(graph: ir.Graph, value: ir.Value) -> ir.Value:
    """A value as a graph output of its own; inputs and weights pass through an Identity."""
    if value.producer() is not None and not value.is_graph_output():
        return value
    copy = ir.node("Identity", [value])
    copy.outputs[0].name = f"{value.name}.{len(list(graph))}"
    copy.outputs[0].type, copy.outputs[0].shape = value.type, value.shape
    graph.append(copy)
    return copy.outputs[0]


def _merge_nodes(graph: ir.Graph, models: Sequence[ir.Model]) -> None:
    """Move all nodes over, rank by rank up to the next collective, which all ranks enter."""
    queues = [list(model.graph) for model in models]
    for model, nodes in zip(models, queues, strict=True):
        model.graph.remove(nodes)
    while any(queues):
        met = []
        for queue in queues:
            while queue and queue[0].domain != "rankmesh":
                graph.append(queue.pop(0))
            met += [queue.pop(0)] if queue else []
        if met:
            _carry_out(graph, met)


def _carry_out(graph: ir.Graph, met: Sequence[ir.Node]) -> None:
    """One collective of all ranks, as nodes of the merged graph."""
    kinds = {node.op_type for node in met}
    if len(kinds) != 1:
        raise ValueError(f"Ranks meet in different collectives: {', '.join(sorted(kinds))}.")
    values = [value for node in met for value in node.inputs if value is not None]
    results = _RESULTS[met[0].op_type](graph, met[0], values)
    for node, result in zip(met, results, strict=True):
        old = node.outputs[0]
        name = old.name
        copy = ir.node("Identity", [result])
        copy.outputs[0].type, copy.outputs[0].shape = old.type, old.shape
        old.replace_all_uses_with(copy.outputs[0], replace_graph_outputs=True)
        copy.outputs[0].name = name
        graph.append(copy)


def _add(
    graph: ir.Graph, operator: str, values: Sequence[ir.Value], **attributes: object
) -> ir.Node:
    made = ir.node(operator, values, attributes)  # type: ignore[arg-type]  # texts and numbers
    for index, value in enumerate(made.outputs):
        value.name = f"{values[0].name}.{operator}.{len(list(graph))}.{index}"
    graph.append(made)
    return made


def _reduced(graph: ir.Graph, node: ir.Node, values: Sequence[ir.Value]) -> ir.Value:
    found = node.attributes.get("reduction")
    reduction = "sum" if found is None else found.as_string()
    return _add(graph, _REDUCTIONS[reduction], values).outputs[0]


def _all_reduce(graph: ir.Graph, node: ir.Node, values: Sequence[ir.Value]) -> list[ir.Value]:
    return [_reduced(graph, node, values)] * len(values)


def _all_gather(graph: ir.Graph, node: ir.Node, values: Sequence[ir.Value]) -> list[ir.Value]:
    return [_add(graph, "Concat", values, axis=0).outputs[0]] * len(values)


def _pieces(graph: ir.Graph, value: ir.Value, count: int) -> Sequence[ir.Value]:
    attributes = {"axis": 0}
    if graph.opset_imports.get("", 0) >= 18:  # before, the number of outputs says it
        attributes["num_outputs"] = count
    made = ir.node("Split", [value], attributes, num_outputs=count)
    for index, one in enumerate(made.outputs):
        one.name = f"{value.name}.piece.{len(list(graph))}.{index}"
    graph.append(made)
    return made.outputs


def _reduce_scatter(graph: ir.Graph, node: ir.Node, values: Sequence[ir.Value]) -> list[ir.Value]:
    return list(_pieces(graph, _reduced(graph, node, values), len(values)))


def _all_to_all(graph: ir.Graph, node: ir.Node, values: Sequence[ir.Value]) -> list[ir.Value]:
    pieces = [_pieces(graph, value, len(values)) for value in values]
    return [
        _add(graph, "Concat", [mine[rank] for mine in pieces], axis=0).outputs[0]
        for rank in range(len(values))
    ]


_RESULTS = {
    "AllReduce": _all_reduce,
    "AllGather": _all_gather,
    "ReduceScatter": _reduce_scatter,
    "AllToAll": _all_to_all,
}
