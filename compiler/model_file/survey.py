"""Surveys of model files: their contents, for models too that cannot be lowered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from onnx import GraphProto, NodeProto, TensorProto

from ..element_types import dtypes
from ..lowering.unsupported import unsupported
from ..mindir.graph import Graph, MindirModel
from ..onnx_graph.collective_nodes import DOMAIN
from ..onnx_graph.external import set_entries
from .loaded_model import LoadedModel

_GATHER = "AllGather"
Cuts: TypeAlias = dict[str, list[int]]


@dataclass(frozen=True, slots=True)
class ModelSurvey:
    """The contents of a model file.

    `primitives` counts the nodes by primitive; `unsupported` has the nodes of each primitive that
    cannot be lowered, and `load` loads a model without any. `weights` are records whose data lie in
    files of `folder`, or in `memory` by location. `cuts` has the number of parts of a weight along
    each axis, as far as the file tells. `user_info` are the exporter's notes; None: the format has
    none.
    """

    producer: str
    primitives: Counter[str]
    weights: Sequence[TensorProto]
    cuts: Cuts
    folder: str
    memory: Mapping[str, memoryview]
    load: Callable[[], LoadedModel]
    unsupported: Mapping[str, list[str]] = field(default_factory=dict)
    user_info: Mapping[str, str] | None = None


def survey_onnx(loaded: LoadedModel) -> ModelSurvey:
    """Survey an ONNX model."""
    graph = loaded.model.graph
    used = Counter(f"{node.domain}.{node.op_type}".lstrip(".") for node in graph.node)
    cuts = dict(_gathered(graph))
    producer = loaded.model.producer_name
    return ModelSurvey(
        producer, used, graph.initializer, cuts, loaded.folder, loaded.memory, lambda: loaded
    )


def survey_mindir(model: MindirModel, load: Callable[[], LoadedModel]) -> ModelSurvey:
    """Survey a MindIR model, which `load` lowers."""
    graphs = (model.entry, *model.functions.values())
    cuts: Cuts = {}
    for graph in graphs:
        cuts.update(_cuts(graph, model))
    return ModelSurvey(
        model.producer,
        Counter(node.primitive or "(call)" for graph in graphs for node in graph.nodes),
        list(_records(model)),
        cuts,
        model.folder,
        {model.location(path): data for path, data in model.memory.items()},
        load,
        unsupported(model),
        model.user_info,
    )


def _records(model: MindirModel) -> Iterator[TensorProto]:
    for weight in model.weights.values():
        record = TensorProto(
            name=weight.name,
            data_type=dtypes.to_onnx(weight.dtype),
            dims=weight.shape,
            data_location=TensorProto.EXTERNAL,
        )
        set_entries(record, {"location": model.location(weight.path), "offset": weight.offset})
        yield record


def _cuts(graph: Graph, model: MindirModel) -> Iterator[tuple[str, list[int]]]:
    """Cuts by the strategies that MindSpore's semi-automatic parallelism notes at nodes, and by
    AllGathers of weights.
    """
    loaded: dict[str, str] = {}
    for node in graph.nodes:
        strategies = node.attributes.get("in_strategy")
        for number, key in enumerate(node.inputs):
            weight = model.weights.get(loaded.get(key, key))
            if weight is None:
                continue
            if node.primitive == "Load":
                loaded[node.key] = key
            elif node.primitive == _GATHER:
                size = node.attributes.get("rank_size", 0)
                parts = size if isinstance(size, int) else 0
                yield weight.name, [parts, *[1] * (len(weight.shape) - 1)]
            elif strategy := _strategy(strategies, number, weight.shape):
                yield weight.name, strategy


def _strategy(strategies: Any, number: int, shape: tuple[int, ...]) -> list[int]:
    """The number of parts along each axis of an input; empty where the attribute has none."""
    if not isinstance(strategies, tuple) or number >= len(strategies):
        return []
    parts = strategies[number]
    fits = isinstance(parts, tuple) and len(parts) == len(shape)
    return list(parts) if fits and all(isinstance(p, int) and p > 0 for p in parts) else []


def _gathered(graph: GraphProto) -> Iterator[tuple[str, list[int]]]:
    """Cuts of the initializers that ranks gather."""
    ranks = {tensor.name: len(tensor.dims) for tensor in graph.initializer}
    for node in graph.node:
        gathers = (node.domain, node.op_type) == (DOMAIN, _GATHER)
        if gathers and node.input and ranks.get(node.input[0]):
            yield node.input[0], [_group_size(node), *[1] * (ranks[node.input[0]] - 1)]


def _group_size(node: NodeProto) -> int:
    """The members of a collective's group; 0 where the file leaves the number open."""
    found = {attribute.name: attribute for attribute in node.attribute}
    if "ranks" in found:
        return len(found["ranks"].ints)
    return int(found["size"].i) if "size" in found else 0
