"""Changes of an ONNX model that know its structure, so that most files are still read.

Names, attributes, sizes, types, domains and versions become others, parts are left out, doubled or
put elsewhere, and data lies where it does not. `model_changes.py` changes fields of any message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Any

from model_changes import change as change_any
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper
from unusual_spellings import all_nodes, graphs

Change = Callable[[ModelProto, Random], None]
_SIZES = (0, 1, 2, 3, 5, 7, -1, -2, 64, 1000, 1 << 20, 1 << 31, 1 << 40, (1 << 63) - 1, -(1 << 63))
_NUMBERS = (*_SIZES, 13, 17)
_REALS = (0.0, -1.0, 1e30, float("inf"), float("nan"), 1e-30)
_TYPES = (0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 13, 14, 16, 17, 19, 21, 22, 23, 24, 99)
_OPERATORS = (
    *("Relu", "Add", "MatMul", "Gemm", "Conv", "Concat", "Split", "Slice", "Reshape", "If", "Loop"),
    *("Scan", "Constant", "Cast", "Transpose", "Gather", "Clip", "Softmax", "ReduceSum", "TopK"),
    *("Shape", "Expand", "Tile", "Pad", "ConstantOfShape", "SequenceConstruct", "NoSuchOperator"),
    *(
        "SplitToSequence",
        "Optional",
        "StringNormalizer",
        "LSTM",
        "Resize",
        "Attention",
        "AllReduce",
    ),
)
_DOMAINS = ("", "ai.onnx", "com.microsoft", "my.functions", "rankmesh", "nowhere", "ai.onnx.ml")
_NAMES = ("", "x0", "v1", "c1", "\0", "a/../b", "ü", "x" * 300)
_PLACES = ("missing.data", "../outside", "/etc/passwd", "model.onnx", "", ".", "inputs.npz", "a\0b")


def changed(model: ModelProto, random: Random) -> list[str]:
    """Change a model one to three times; the names of the changes."""
    chosen = [random.choice(CHANGES) for _ in range(random.choice([1, 1, 1, 2, 3]))]
    for one in chosen:
        one(model, random)
    return [one.__name__ for one in chosen]


def _node(model: ModelProto, random: Random) -> NodeProto | None:
    nodes = list(all_nodes(model))
    return random.choice(nodes) if nodes else None


def _graph(model: ModelProto, random: Random) -> GraphProto:
    found = list(graphs(model.graph))
    return found[0] if random.randrange(2) else random.choice(found)


def _tensor(model: ModelProto, random: Random) -> TensorProto | None:
    found = [one for graph in graphs(model.graph) for one in graph.initializer]
    found += [one.t for node in all_nodes(model) for one in node.attribute if one.HasField("t")]
    return random.choice(found) if found else None


def _replace(values: Any, items: Sequence[Any]) -> None:
    """Put other items into a repeated field."""
    kept = list(items)
    del values[:]
    values.extend(kept)


def wired(model: ModelProto, random: Random) -> None:
    """A node takes another value, or gives one of another name."""
    node, other = _node(model, random), _node(model, random)
    if node is None or other is None:
        return
    names = [*_NAMES, *other.input, *other.output, *(one.name for one in model.graph.initializer)]
    side = node.input if node.input and random.randrange(3) else node.output
    if side:
        side[random.randrange(len(side))] = random.choice(names)


def arity(model: ModelProto, random: Random) -> None:
    """An input or output more or less."""
    node = _node(model, random)
    if node is None:
        return
    side = random.choice([node.input, node.output])
    if side and random.randrange(2):
        side.pop(random.randrange(len(side)))
    else:
        side.append(random.choice([*node.input, *_NAMES, "fresh"]))


def operator(model: ModelProto, random: Random) -> None:
    node = _node(model, random)
    if node is not None:
        node.op_type = random.choice(_OPERATORS)


def domain(model: ModelProto, random: Random) -> None:
    node = _node(model, random)
    if node is not None:
        node.domain = random.choice(_DOMAINS)


def attribute(model: ModelProto, random: Random) -> None:
    """An attribute of another value, kind or name; one less, or one twice."""
    nodes = [node for node in all_nodes(model) if node.attribute]
    if not nodes:
        return
    node = random.choice(nodes)
    one = random.choice(list(node.attribute))
    kind = random.randrange(6)
    if kind == 0:
        node.attribute.remove(one)
    elif kind == 1:
        node.attribute.append(one)
    elif kind == 2:
        one.name = random.choice([*_NAMES, "axis", "to", "perm", "alpha", "then_branch", "body"])
    elif kind == 3:
        one.type = random.randrange(15)
    elif kind == 4:
        one.ref_attr_name = random.choice(["slope", "nowhere", one.name])
    else:
        _other_value(one, random)


def _other_value(one: AttributeProto, random: Random) -> None:
    if one.type == AttributeProto.FLOAT:
        one.f = random.choice(_REALS)
    elif one.type == AttributeProto.INT:
        one.i = random.choice(_NUMBERS)
    elif one.type == AttributeProto.INTS:
        _replace(one.ints, [random.choice([old, random.choice(_NUMBERS)]) for old in one.ints])
    elif one.type == AttributeProto.STRING:
        one.s = random.choice([b"", b"\xff\xfe", b"SAME_UPPER", b"x" * 1000])
    elif one.type == AttributeProto.GRAPH and one.g.output:
        one.g.output.pop()


def fresh_attribute(model: ModelProto, random: Random) -> None:
    """An attribute that the operator may have, or not."""
    node = _node(model, random)
    if node is not None:
        name = random.choice(
            ["axis", "axes", "keepdims", "alpha", "to", "perm", "group", "strides"]
        )
        value = random.choice([random.choice(_NUMBERS), 0.5, [1, 0], "text"])
        node.attribute.append(helper.make_attribute(name, value))


def tensor_dims(model: ModelProto, random: Random) -> None:
    """A weight whose sizes are not those of its elements."""
    tensor = _tensor(model, random)
    if tensor is None:
        return
    if tensor.dims and random.randrange(3):
        tensor.dims[random.randrange(len(tensor.dims))] = random.choice(_SIZES)
    else:
        tensor.dims.append(random.choice(_SIZES))


def tensor_type(model: ModelProto, random: Random) -> None:
    tensor = _tensor(model, random)
    if tensor is not None:
        tensor.data_type = random.choice(_TYPES)


def tensor_data(model: ModelProto, random: Random) -> None:
    """Elements less, more or other ones."""
    tensor = _tensor(model, random)
    if tensor is None:
        return
    kind = random.randrange(4)
    if kind == 0:
        for name in ("raw_data", "float_data", "int32_data", "int64_data"):
            tensor.ClearField(name)
    elif kind == 1:
        tensor.raw_data = tensor.raw_data[:-1]
    elif kind == 2:
        tensor.int64_data.append(random.choice(_NUMBERS))
    else:
        tensor.raw_data = bytes(random.randrange(256) for _ in range(len(tensor.raw_data)))


def external(model: ModelProto, random: Random) -> None:
    """A weight in a file that is missing, elsewhere, or too short."""
    tensor = _tensor(model, random)
    if tensor is None:
        return
    tensor.data_location = TensorProto.EXTERNAL
    if random.randrange(2):
        tensor.ClearField("raw_data")
    numbers = [str(random.choice(_SIZES)), "text", "0", ""]
    entries = {"location": random.choice(_PLACES)}
    if random.randrange(2):
        entries["offset"] = random.choice(numbers)
    if random.randrange(2):
        entries["length"] = random.choice(numbers)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)


def left_out(model: ModelProto, random: Random) -> None:
    """A node, weight, input, output, function or import less."""
    graph = _graph(model, random)
    fields = [graph.node, graph.node, graph.initializer, graph.input, graph.output]
    fields += [model.functions, model.opset_import]
    found = [one for one in fields if len(one)]
    if found:
        field = random.choice(found)
        field.pop(random.randrange(len(field)))


def doubled(model: ModelProto, random: Random) -> None:
    """A node, weight, input, output, function or import twice."""
    graph = _graph(model, random)
    fields: list[Any] = [graph.node, graph.initializer, graph.input, graph.output]
    fields += [model.functions, model.opset_import, graph.value_info]
    found = [one for one in fields if len(one)]
    if found:
        field = random.choice(found)
        field.append(random.choice(list(field)))


def value_type(model: ModelProto, random: Random) -> None:
    """Another type of an input, output or value inside: of elements, of sizes, or no tensor."""
    graph = _graph(model, random)
    infos = [*graph.input, *graph.output, *graph.value_info]
    if not infos:
        return
    info = random.choice(infos)
    kind = random.randrange(5)
    if kind == 0:
        info.type.tensor_type.elem_type = random.choice(_TYPES)
    elif kind == 1:
        info.type.sequence_type.elem_type.tensor_type.elem_type = TensorProto.FLOAT
    elif kind == 2:
        info.ClearField("type")
    elif info.type.tensor_type.shape.dim and kind == 3:
        dims = info.type.tensor_type.shape.dim
        dims[random.randrange(len(dims))].dim_value = random.choice(_SIZES)
    else:
        info.type.tensor_type.shape.dim.add().dim_value = random.choice(_SIZES)


def renamed(model: ModelProto, random: Random) -> None:
    """An input, output, weight or function of another name."""
    graph = _graph(model, random)
    found = [*graph.input, *graph.output, *graph.initializer, *model.functions]
    if found:
        random.choice(found).name = random.choice([*_NAMES, *(one.name for one in graph.input)])


def version(model: ModelProto, random: Random) -> None:
    """Another version of the format or of a domain."""
    if random.randrange(3) == 0 or not model.opset_import:
        model.ir_version = random.choice([0, 1, 3, 8, 10, 13, 99, -1, (1 << 63) - 1])
    else:
        one = random.choice(list(model.opset_import))
        one.version = random.choice([-1, 0, 1, 6, 7, 9, 11, 12, 13, 18, 23, 24, 28, 99, 1 << 40])


def recursion(model: ModelProto, random: Random) -> None:
    """A function that calls itself, or has the name of an operator."""
    if not model.functions:
        return
    one = random.choice(list(model.functions))
    if random.randrange(2) and one.node:
        node = random.choice(list(one.node))
        node.op_type, node.domain = one.name, one.domain
    else:
        one.name, one.domain = "Relu", random.choice(["", "ai.onnx", one.domain])


def sparse(model: ModelProto, random: Random) -> None:
    """A sparse weight with places outside of it."""
    if not model.graph.sparse_initializer:
        return
    one = random.choice(list(model.graph.sparse_initializer))
    if random.randrange(2):
        one.dims[0] = random.choice(_SIZES)
    else:
        one.indices.raw_data = b"\xff" * len(one.indices.raw_data)


def anything(model: ModelProto, random: Random) -> None:
    """Any field of the message."""
    with suppress(ValueError):  # a number that is none of an enumeration's
        change_any(model, random)


CHANGES: tuple[Change, ...] = (
    *(wired, wired, arity, arity, operator, operator, domain, attribute, attribute, attribute),
    *(fresh_attribute, tensor_dims, tensor_dims, tensor_type, tensor_data, external, left_out),
    *(left_out, doubled, value_type, value_type, renamed, version, recursion, sparse, anything),
)
