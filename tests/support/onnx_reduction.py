"""Reduction of a model that shows a fault: smaller models that show it still.

Outputs, nodes, weights and hints are left out one after the other, and values in the middle become
inputs with what onnxruntime computes there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto, helper
from unusual_spellings import all_nodes, needs

Feeds = Mapping[str, np.ndarray[Any, Any]]
Case = tuple[ModelProto, Feeds]


def reduced(
    model: ModelProto,
    feeds: Feeds,
    fails: Callable[[ModelProto, Feeds], bool],
    seconds: float = 30.0,
) -> Case:
    """The smallest model found for which `fails` is true."""
    end = time.monotonic() + seconds
    best: Case = model, feeds
    again = True
    while again:
        again = False
        for candidate in _smaller(*best):
            if time.monotonic() > end:
                return best
            if fails(*candidate):
                best, again = candidate, True
                break
    return best


def _copy(model: ModelProto) -> ModelProto:
    made = ModelProto()
    made.CopyFrom(model)
    return made


def _smaller(model: ModelProto, feeds: Feeds) -> Iterator[Case]:
    """Models with less in them, the most promising first."""
    for index, _ in enumerate(model.graph.output):
        if len(model.graph.output) > 1:
            yield _pruned(_with_outputs(model, [model.graph.output[index]]), feeds)
    named = {one.name for one in model.graph.output}
    for node in model.graph.node:
        for name in node.output:
            if name and name not in named:
                yield _pruned(_with_outputs(model, [onnx.ValueInfoProto(name=name)]), feeds)
    yield from _cut(model, feeds)
    for name in ("value_info", "doc_string", "sparse_initializer"):
        if getattr(model.graph, name):
            made = _copy(model)
            made.graph.ClearField(name)
            yield made, feeds
    for index, info in enumerate(model.graph.output):
        if info.type.tensor_type.HasField("shape"):
            made = _copy(model)
            made.graph.output[index].type.tensor_type.ClearField("shape")
            yield made, feeds
    yield from _less(model, feeds)


def _less(model: ModelProto, feeds: Feeds) -> Iterator[Case]:
    """Without one function, import or weight."""
    for field in ("functions", "opset_import"):
        for index, one in enumerate(getattr(model, field)):
            if one.domain in ("", "ai.onnx"):
                continue
            made = _copy(model)
            del getattr(made, field)[index]
            yield made, feeds
    for index in range(len(model.graph.output)):
        if len(model.graph.output) > 1:
            made = _copy(model)
            del made.graph.output[index]
            yield _pruned(made, feeds)
    pruned = _pruned(_copy(model), feeds)
    if pruned[0].ByteSize() < model.ByteSize():
        yield pruned


def _with_outputs(model: ModelProto, outputs: list[onnx.ValueInfoProto]) -> ModelProto:
    made = _copy(model)
    del made.graph.output[:]
    made.graph.output.extend(outputs)
    return made


def _pruned(model: ModelProto, feeds: Feeds) -> Case:
    """Without nodes, weights and inputs that no output needs."""
    graph = model.graph
    wanted = {one.name for one in graph.output}
    kept: set[int] = set()
    changed = True
    while changed:
        changed = False
        for index, node in enumerate(graph.node):
            if index not in kept and wanted & set(node.output):
                kept.add(index)
                wanted |= needs(node)
                changed = True
    nodes = [node for index, node in enumerate(graph.node) if index in kept]
    del graph.node[:]
    graph.node.extend(nodes)
    for field in (graph.initializer, graph.input, graph.value_info):
        left = [one for one in field if one.name in wanted]
        del field[:]
        field.extend(left)
    if model.functions and not any(
        node.domain == one.domain for node in all_nodes(model) for one in model.functions
    ):
        del model.functions[:]
    return model, {name: array for name, array in feeds.items() if name in wanted}


def _cut(model: ModelProto, feeds: Feeds) -> Iterator[Case]:
    """Models in which a value that a node makes is an input."""
    arrays = _values(model, feeds)
    for name, array in arrays.items():
        made = _copy(model)
        if array.dtype.kind not in "fiub" or name in {one.name for one in made.graph.output}:
            continue
        for node in made.graph.node:
            node.output[:] = ["" if one == name else one for one in node.output]
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        made.graph.input.append(helper.make_tensor_value_info(name, kind, array.shape))
        left = [one for one in made.graph.node if any(one.output)]
        if len(left) < len(made.graph.node):
            del made.graph.node[:]
            made.graph.node.extend(left)
            yield _pruned(made, {**feeds, name: array})


def _values(model: ModelProto, feeds: Feeds) -> dict[str, np.ndarray[Any, Any]]:
    """What onnxruntime computes for each node; nothing where it refuses."""
    names = [name for node in model.graph.node for name in node.output if name]
    made = _with_outputs(model, [onnx.ValueInfoProto(name=name) for name in names])
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(made.SerializeToString(), options)
        return dict(zip(names, session.run(None, dict(feeds)), strict=True))
    except Exception:
        return {}
