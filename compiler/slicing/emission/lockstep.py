"""Lockstep: the graphs of all ranks as one graph, in which collectives are ordinary nodes.

One onnxruntime session then runs all ranks at once, in one process: an AllReduce is an Add, an
AllGather a Concat, a Receive the value that was sent. So a plan is tried without processes, and
thousands of plans in seconds.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence

import onnx_ir as ir

_REDUCTIONS = {"sum": "Add", "max": "Max", "min": "Min"}


def merged(models: Sequence[ir.Model]) -> ir.Model:
    """One model that computes what the ranks compute together.

    Inputs are those of the first rank, and reach all. Output `y` of rank r is named `r{r}/y`. The
    members of a group must have the same collectives in the same order; the models are used up.
    """
    first = models[0]
    inputs = list(first.graph.inputs)
    for rank, model in enumerate(models):
        _compute_ends(model.graph)
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
    _merge_nodes(graph, models)
    outputs = [value for model in models for value in model.graph.outputs]
    for model in models:
        model.graph.outputs.clear()
    graph.outputs.extend(_as_output(graph, value) for value in outputs)
    return ir.Model(graph, ir_version=first.ir_version or 10)


def _compute_ends(graph: ir.Graph) -> None:
    """Let nodes make the outputs that are inputs or weights: these leave their graph."""
    for index, value in enumerate(graph.outputs):
        if value.producer() is None:
            copy = ir.node("Identity", [value], name=f"{value.name}.end")
            (graph.outputs[index],) = copy.outputs
            copy.outputs[0].name = f"{value.name}.end.{index}"
            copy.outputs[0].type, copy.outputs[0].shape = value.type, value.shape
            graph.append(copy)


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
    """Move all nodes over, rank by rank up to the next collective, as its members enter it."""
    queues = [deque(model.graph) for model in models]
    for model, nodes in zip(models, queues, strict=True):
        model.graph.remove(nodes)
    mail: defaultdict[tuple[int, int], deque[ir.Value]] = defaultdict(deque)
    while any(queues):
        moved = [_advance(graph, rank, queue, mail) for rank, queue in enumerate(queues)]
        if not any(moved) and not _meet(graph, queues):
            waiting = sorted({queue[0].op_type for queue in queues if queue})
            raise ValueError(f"Ranks wait for each other for ever: {', '.join(waiting)}.")


def _advance(
    graph: ir.Graph,
    rank: int,
    queue: deque[ir.Node],
    mail: defaultdict[tuple[int, int], deque[ir.Value]],
) -> bool:
    """Move the nodes of a rank over up to one that it waits in; return whether it moved."""
    length = len(queue)
    while queue:
        node = queue[0]
        if node.domain != "rankmesh":
            graph.append(node)
        elif node.op_type == "Send":
            (value,) = node.inputs
            assert value is not None
            mail[rank, node.attributes["to"].as_int()].append(value)
        elif node.op_type == "Receive" and (box := mail[node.attributes["source"].as_int(), rank]):
            _replace(graph, node, box.popleft())
        else:
            break
        queue.popleft()
    return len(queue) < length


def _meet(graph: ir.Graph, queues: Sequence[deque[ir.Node]]) -> bool:
    """Carry out the first collective whose members have all come to it; False where none is."""
    for queue in queues:
        if not queue or queue[0].op_type == "Receive":
            continue
        found = queue[0].attributes.get("ranks")
        members = range(len(queues)) if found is None else found.as_ints()
        if all(queues[r] and queues[r][0].op_type == queue[0].op_type for r in members):
            _carry_out(graph, [queues[rank].popleft() for rank in members])
            return True
    return False


def _carry_out(graph: ir.Graph, met: Sequence[ir.Node]) -> None:
    """One collective of a group, as nodes of the merged graph."""
    values = [value for node in met for value in node.inputs if value is not None]
    results = _RESULTS[met[0].op_type](graph, met[0], values)
    for node, result in zip(met, results, strict=True):
        _replace(graph, node, result)


def _replace(graph: ir.Graph, node: ir.Node, result: ir.Value) -> None:
    """Let a value take the place of a collective's result."""
    old = node.outputs[0]
    if node.op_type == "Receive" and not old.is_graph_output():
        old.replace_all_uses_with(result)
        return
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
    if values[0].dtype == ir.DataType.FLOAT16 and reduction == "sum":
        return _narrow_sum(graph, values)
    total = values[0]
    for value in values[1:]:  # Sum takes no integers
        total = _add(graph, _REDUCTIONS[reduction], [total, value]).outputs[0]
    return total


def _narrow_sum(graph: ir.Graph, values: Sequence[ir.Value]) -> ir.Value:
    """The sum of terms that are float16.

    onnxruntime computes float16 in float32 on CPUs. It would not round a term between a product and
    an Add, as ranks do. A Concat takes float16 as it is.
    """
    axis = ir.val(f"{values[0].name}.axis.{len(list(graph))}", const_value=ir.tensor([0]))
    graph.register_initializer(axis)
    rows = [_add(graph, "Unsqueeze", [value, axis]).outputs[0] for value in values]
    stacked = _add(graph, "Concat", rows, axis=0).outputs[0]
    return _add(graph, "ReduceSum", [stacked, axis], keepdims=0).outputs[0]


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
