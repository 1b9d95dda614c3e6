"""MindIR models of several functions, in a few words, as MindSpore writes control flow."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rankmesh.compiler.element_types.value_types import OtherType, TensorType, ValueType
from rankmesh.compiler.mindir.graph import (
    Constant,
    Graph,
    Input,
    MindirModel,
    MindirNode,
    StoredWeight,
)

F32 = TensorType(np.dtype(np.float32), (2,))
I32 = TensorType(np.dtype(np.int32), ())
BOOL = TensorType(np.dtype(np.bool_), ())
ANY = OtherType("closure")


def function(
    name: str, inputs: str, *lines: str, types: Mapping[str, ValueType] | None = None
) -> Graph:
    """A function; each line is `key = Primitive argument ...` or `key = @callee argument ...`, the
    last `return key`.

    Arguments are keys of the function, else names of functions or keys of the model. Types are
    those of `types`; else inputs called i.. are int32, others float32[2], and nodes of unknown
    type.
    """
    types = types or {}
    own = {*inputs.split(), *(line.split(" = ")[0] for line in lines[:-1])}

    def key(word: str) -> str:
        return f"{name}.{word}" if word in own else word

    def typed(word: str) -> ValueType:
        return types.get(word, I32 if word.startswith("i") else F32)

    nodes = []
    for line in lines[:-1]:
        result, what = line.split(" = ")
        head, *arguments = what.split()
        target = key(head[1:]) if head.startswith("@") else ""
        nodes.append(
            MindirNode(
                key(result),
                "" if target else head,
                tuple(map(key, arguments)),
                {},
                types.get(result, ANY),
                f"{name}/{result}",
                target,
            )
        )
    output = lines[-1].removeprefix("return ")
    return Graph(
        name,
        tuple(Input(key(word), word, typed(word)) for word in inputs.split()),
        tuple(nodes),
        key(output),
        types.get(output, F32),
    )


def model(
    entry: Graph,
    *functions: Graph,
    constants: Mapping[str, Constant] | None = None,
    weights: Mapping[str, StoredWeight] | None = None,
) -> MindirModel:
    """A model; numbers among the arguments need no constants."""
    words = {word for graph in (entry, *functions) for node in graph.nodes for word in node.inputs}
    numbers = {
        word: _number(word) for word in words if word.lstrip("-").replace(".", "", 1).isdigit()
    }
    return MindirModel(
        "m.mindir",
        "tests",
        entry,
        {graph.name: graph for graph in functions},
        {**numbers, **(constants or {})},
        weights or {},
    )


def _number(word: str) -> np.ndarray:
    return np.array(float(word), np.float32) if "." in word else np.array(int(word), np.int32)
