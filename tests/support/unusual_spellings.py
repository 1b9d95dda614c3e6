"""Spellings of random models: legal but unusual ways to write one, which change no answer.

Each function changes a model in memory, by numbers of `random`; `spell` applies some of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from random import Random

import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

Spelling = Callable[[ModelProto, Random], None]
_ODD = ("a/b", "x:0", "layer.1", "größe", "名", "a b", "0", "-", "Ω::y", "./z", "a\\b", "%s", "{n}")


def graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """A graph and all graphs inside of it."""
    yield graph
    yield from inner_graphs(graph.node)


def inner_graphs(nodes: Iterable[NodeProto]) -> Iterator[GraphProto]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from graphs(attribute.g)


def all_nodes(model: ModelProto) -> Iterator[NodeProto]:
    """The nodes of the graph, of graphs inside of it, and of functions."""
    for graph in graphs(model.graph):
        yield from graph.node
    for function in model.functions:
        yield from function.node
        for graph in inner_graphs(function.node):
            yield from graph.node


def shuffled(model: ModelProto, random: Random) -> None:
    """Nodes after those that use them; now and then in branches, too, where onnxruntime refuses."""
    inside = random.randrange(8) == 0
    for graph in graphs(model.graph) if inside else [model.graph]:
        nodes = list(graph.node)
        random.shuffle(nodes)
        del graph.node[:]
        graph.node.extend(nodes)


def long_domain(model: ModelProto, random: Random) -> None:
    """The standard domain by its long name: in the import, on nodes, or both."""
    which = random.randrange(3)
    if which != 1:
        for one in model.opset_import:
            one.domain = one.domain or "ai.onnx"
    inside = random.randrange(8) == 0  # onnxruntime does not know the name in functions
    if which != 0:
        for node in all_nodes(model) if inside else model.graph.node:
            if not node.domain and random.randrange(3):
                node.domain = "ai.onnx"


def missing_import(model: ModelProto, _: Random) -> None:
    """No import of com.microsoft, though nodes are of it."""
    kept = [one for one in model.opset_import if one.domain != "com.microsoft"]
    del model.opset_import[:]
    model.opset_import.extend(kept)


def needless_import(model: ModelProto, random: Random) -> None:
    """Imports of domains that no node is of."""
    domains = random.choice(
        [["ai.onnx.ml"], ["com.example"], ["ai.onnx.training", "com.microsoft"]]
    )
    known = {one.domain for one in model.opset_import}
    model.opset_import.extend(helper.make_opsetid(one, 1) for one in domains if one not in known)


def open_dimensions(model: ModelProto, random: Random) -> None:
    """Dimensions as -1, as names of their own, or not at all."""
    infos = [*model.graph.output, *model.graph.input]
    for info in infos:
        shape = info.type.tensor_type.shape
        for dim in shape.dim:
            if dim.HasField("dim_param") and random.randrange(2):
                dim.dim_value = -1
            elif dim.HasField("dim_param") and random.randrange(3) == 0:
                dim.ClearField("dim_param")
    for info in model.graph.output:
        if random.randrange(3) == 0:
            info.type.tensor_type.ClearField("shape")


def wrong_hints(model: ModelProto, random: Random) -> None:
    """Shapes of outputs that are too strict or plainly wrong."""
    for info in model.graph.output:
        dims = info.type.tensor_type.shape.dim
        for dim in dims:
            if random.randrange(2):
                dim.dim_value = random.choice([1, 3, 7, 9])
        if random.randrange(5) == 0:
            dims.add().dim_value = 2


def wrong_inner_hints(model: ModelProto, random: Random) -> None:
    """Shapes of values inside the graph: too strict, or names that are elsewhere something else."""
    kinds = {one.name for one in model.graph.output}
    for node in model.graph.node:
        for name in node.output:
            if (
                name
                and name not in kinds
                and random.randrange(3) == 0
                and node.op_type in ("MatMul", "Relu", "Add")
            ):
                kind = TensorProto.FLOAT
                shape = random.choice([["n", 5], [9, 9], [], ["m"], [-1, -1]])
                info = helper.make_tensor_value_info(name, kind, shape)
                model.graph.value_info.append(info)


def stray_hints(model: ModelProto, _: Random) -> None:
    """Types of values that are nowhere."""
    model.graph.value_info.append(helper.make_tensor_value_info("nowhere", TensorProto.FLOAT, [2]))


def odd_names(model: ModelProto, random: Random) -> None:
    """Names with characters that paths, ports and patterns give a meaning."""
    names: dict[str, str] = {}

    def renamed(name: str) -> str:
        if name and name not in names:
            odd = random.randrange(2)
            names[name] = f"{random.choice(_ODD)}{len(names)}" if odd else name
        return names.get(name, name)

    for graph in graphs(model.graph):
        for info in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
            info.name = renamed(info.name)
        for sparse in graph.sparse_initializer:
            sparse.values.name = renamed(sparse.values.name)
        for node in graph.node:
            node.input[:] = [renamed(one) for one in node.input]
            node.output[:] = [renamed(one) for one in node.output]
            node.name = random.choice(["", node.name, f"{random.choice(_ODD)}{len(names)}"])


def equal_inner_names(model: ModelProto, _: Random) -> None:
    """The same names in the branches of an If."""
    for node in model.graph.node:
        if node.op_type == "If":
            sides = [one.g for one in node.attribute]
            if not any(list(inner_graphs(side.node)) for side in sides):
                for side in sides:
                    _numbered(side)


def _numbered(graph: GraphProto) -> None:
    made = [
        *(out for node in graph.node for out in node.output),
        *(one.name for one in graph.initializer),
    ]
    names = {name: f"inner{index}" for index, name in enumerate(made)}
    for node in graph.node:
        node.input[:] = [names.get(one, one) for one in node.input]
        node.output[:] = [names[one] for one in node.output]
    for info in (*graph.output, *graph.initializer):
        info.name = names[info.name]


def default_inputs(model: ModelProto, random: Random) -> None:
    """Weights that are inputs as well: callers may give others. Shards take integers as weights, so
    that these come last: inputs have the same numbers everywhere.
    """
    taken = {one.name for one in model.graph.input}
    infos = [
        helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        for tensor in model.graph.initializer
        if random.randrange(3) == 0 and tensor.name not in taken
    ]
    model.graph.input.extend(sorted(infos, key=lambda one: not is_real(one)))


def is_real(info: onnx.ValueInfoProto) -> bool:
    """Whether a value is of floating point."""
    kinds = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE
    return info.type.tensor_type.elem_type in kinds


def old_representation(model: ModelProto, _: Random) -> None:
    """The form of 2018, in which all weights are inputs."""
    if model.functions or model.graph.sparse_initializer or any(inner_graphs(model.graph.node)):
        return
    taken = {one.name for one in model.graph.input}
    for tensor in model.graph.initializer:
        if tensor.name not in taken:
            info = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            model.graph.input.append(info)
    model.ir_version = 3


def passed_through(model: ModelProto, random: Random) -> None:
    """An output that is an input or a weight."""
    given = [one for one in model.graph.input]
    weights = [
        helper.make_tensor_value_info(one.name, one.data_type, one.dims)
        for one in model.graph.initializer
        if one.data_type in (TensorProto.FLOAT, TensorProto.INT64, TensorProto.DOUBLE)
    ]
    source = random.choice([*given, *weights])
    if source.name not in {one.name for one in model.graph.output}:
        model.graph.output.add().CopyFrom(source)


def listed_twice(model: ModelProto, random: Random) -> None:
    """An output that is listed twice."""
    again = onnx.ValueInfoProto()
    again.CopyFrom(random.choice(list(model.graph.output)))
    model.graph.output.append(again)


def identities(model: ModelProto, random: Random) -> None:
    """Chains of Identity between a node and what it takes."""
    for number, node in enumerate(list(model.graph.node)):
        if not node.input or not node.input[0] or random.randrange(3):
            continue
        source = node.input[0]
        for step in range(random.randrange(1, 3)):
            name = f"same{number}_{step}"
            model.graph.node.append(helper.make_node("Identity", [source], [name]))
            source = name
        node.input[0] = source
    _sort(model.graph)


def _sort(graph: GraphProto) -> None:
    """Each node behind those that it depends on."""
    made = {one.name for one in graph.input} | {one.name for one in graph.initializer} | {""}
    made |= {one.values.name for one in graph.sparse_initializer}
    rest, done = list(graph.node), []
    while rest:
        ready = [node for node in rest if needs(node) <= made]
        if not ready:
            return
        done += ready
        made |= {out for node in ready for out in node.output}
        rest = [node for node in rest if not any(node is one for one in ready)]
    del graph.node[:]
    graph.node.extend(done)


def needs(node: NodeProto) -> set[str]:
    """The values around a node that it takes, its branches included."""
    found = set(node.input)
    for attribute in node.attribute:
        if attribute.HasField("g"):
            found |= _captured(attribute.g)
    return found


def _captured(graph: GraphProto) -> set[str]:
    own = {one.name for one in (*graph.input, *graph.initializer)}
    own |= {out for node in graph.node for out in node.output}
    return {name for node in graph.node for name in needs(node)} - own


def unused(model: ModelProto, random: Random) -> None:
    """Nodes, weights and inputs that nothing takes."""
    source = model.graph.input[0].name
    if random.randrange(2):
        model.graph.node.append(helper.make_node("Identity", [source], ["unused"]))
    if random.randrange(2):
        model.graph.initializer.append(
            helper.make_tensor("unused weight", TensorProto.FLOAT, [2], [1.0, 2.0])
        )


def nameless(model: ModelProto, random: Random) -> None:
    """Nodes without a name, and graphs with the same one."""
    for node in all_nodes(model):
        node.name = ""
    for graph in graphs(model.graph):
        graph.name = graph.name if random.randrange(2) else "g"


SPELLINGS: tuple[Spelling, ...] = (
    *(shuffled, shuffled, shuffled, long_domain, long_domain, missing_import, needless_import),
    *(
        open_dimensions,
        open_dimensions,
        wrong_hints,
        wrong_inner_hints,
        stray_hints,
        odd_names,
        odd_names,
    ),
    *(equal_inner_names, default_inputs, old_representation, passed_through, passed_through),
    *(listed_twice, identities, identities, unused, nameless),
)
_LAST = (shuffled, odd_names)


def spell(model: ModelProto, random: Random, most: int = 4) -> list[str]:
    """Apply up to `most` spellings; their names. Orders and names come last."""
    chosen = [random.choice(SPELLINGS) for _ in range(random.randrange(most + 1))]
    unique = sorted(
        set(chosen), key=lambda one: (_LAST.index(one) if one in _LAST else -1, one.__name__)
    )
    for one in unique:
        one(model, random)
    return [one.__name__ for one in unique]
