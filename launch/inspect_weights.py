"""The weights of one model file as `rankmesh inspect` lists them, with how they were cut as far as the file tells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import prod
from typing import Any

from onnx import GraphProto, NodeProto, TensorProto

from ..worker import dtypes
from ..worker.collective_nodes import DOMAIN
from ..worker.content_sample import ContentSampler
from ..worker.mindir.graph import Graph, Model
from ..worker.onnx_values import tensor_bytes
from ..worker.pivot import Pivot

_WHOLE = 256 << 20
"""Bytes of a model up to which its weights are read whole, to tell which ranks have the same; above it, samples."""

_GATHER = "AllGather"
Cuts = dict[str, list[int]]


def mindir_weights(model: Model) -> list[dict[str, Any]]:
    """The weights of a MindIR as plain data: name, dtype, shape, the hash of its content, and its cuts if told.

    `cuts` has for each axis in how many parts it was cut.
    """
    cuts: Cuts = {}
    for graph in (model.entry, *model.functions.values()):
        cuts.update(_cuts(graph, model))
    records = [TensorProto(name=weight.name, data_type=dtypes.to_onnx(weight.dtype), dims=weight.shape,
                           data_location=TensorProto.EXTERNAL) for weight in model.weights.values()]
    for record, weight in zip(records, model.weights.values(), strict=True):
        for key, text in (("location", model.location(weight.path)), ("offset", weight.offset)):
            record.external_data.add(key=key, value=str(text))
    memory = {model.location(path): data for path, data in model.memory.items()}
    return _listed(records, model.folder, memory, cuts)


def onnx_weights(pivot: Pivot) -> list[dict[str, Any]]:
    """The initializers of an ONNX model, likewise."""
    graph = pivot.model.graph
    return _listed(graph.initializer, pivot.folder, pivot.memory, dict(_gathered(graph)))


def _listed(records: Iterable[TensorProto], folder: str, memory: Mapping[str, memoryview],
            cuts: Cuts) -> list[dict[str, Any]]:
    records = list(records)
    whole = sum(map(tensor_bytes, records)) <= _WHOLE
    with ContentSampler(folder, memory, whole) as sampler:
        return [{"name": record.name, "dtype": _dtype(record), "shape": list(record.dims),
                 "content": _content(sampler, record),
                 **({"cuts": cuts[record.name]} if prod(cuts.get(record.name, ())) > 1 else {})} for record in records]


def _content(sampler: ContentSampler, record: TensorProto) -> str:
    """The hash of a tensor's content; "" where it cannot be read."""
    try:
        return sampler.sample(record).digest.hex()
    except (OSError, ValueError, TypeError, KeyError):
        return ""


def _dtype(record: TensorProto) -> str:
    try:
        return str(dtypes.from_onnx(record.data_type).name)
    except ValueError:
        known = record.data_type in TensorProto.DataType.values()
        return TensorProto.DataType.Name(record.data_type).lower() if known else f"type {record.data_type}"


def _cuts(graph: Graph, model: Model) -> Iterator[tuple[str, list[int]]]:
    """By the strategies that MindSpore's semi-automatic parallelism notes at nodes, and by AllGathers of weights."""
    loaded: dict[str, str] = {}
    for node in graph.nodes:
        strategy = node.attributes.get("in_strategy")
        for number, key in enumerate(node.inputs):
            weight = model.weights.get(loaded.get(key, key))
            if weight is None:
                continue
            if node.primitive == "Load":
                loaded[node.key] = key
            elif node.primitive == _GATHER:
                size = node.attributes.get("rank_size", 0)
                yield weight.name, [size if isinstance(size, int) else 0, *[1] * (len(weight.shape) - 1)]
            elif isinstance(strategy, tuple) and number < len(strategy) and _is_cut(strategy[number], weight.shape):
                yield weight.name, list(strategy[number])


def _is_cut(parts: Any, shape: tuple[int, ...]) -> bool:
    return isinstance(parts, tuple) and len(parts) == len(shape) and all(isinstance(p, int) and p > 0 for p in parts)


def _gathered(graph: GraphProto) -> Iterator[tuple[str, list[int]]]:
    """The initializers that ranks put together, and from how many parts."""
    ranks = {tensor.name: len(tensor.dims) for tensor in graph.initializer}
    for node in graph.node:
        if (node.domain, node.op_type) == (DOMAIN, _GATHER) and node.input and ranks.get(node.input[0]):
            yield node.input[0], [_group_size(node), *[1] * (ranks[node.input[0]] - 1)]


def _group_size(node: NodeProto) -> int:
    """How many members a collective's group has; 0 where the file leaves it open."""
    found = {attribute.name: attribute for attribute in node.attribute}
    if "ranks" in found:
        return len(found["ranks"].ints)
    return int(found["size"].i) if "size" in found else 0
