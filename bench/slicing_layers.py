"""Layers of a network: by the names of nodes and weights, and what a plan exchanges in each."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rankmesh.compiler.slicing.emission.stage_layout import stage_layout
from rankmesh.compiler.slicing.placement.slice_plan import SlicePlan
from rankmesh.compiler.slicing.planning.costs import HostCosts
from rankmesh.compiler.slicing.planning.traffic import StageTraffic
from rankmesh.compiler.source_graph.source_graph import SourceGraph

_NAME = re.compile(
    r"(?:layers|stages)\.\d+\.blocks?\.\d+|(?:layers?|h|blocks?)\.\d+(?:_\d+)?(?=\.)"
)
_ALLREDUCES = {"AllReduce": 1.0, "AllGather": 0.5, "ReduceScatter": 0.5, "AllToAll": 0.5}
_FUSED = {"Attention", "QAttention", "MultiHeadAttention", "GroupQueryAttention"}
_PRODUCTS = {"MatMul", "Gemm", "Conv", "Einsum", "MatMulInteger", "MatMulNBits", "QLinearMatMul"}
_PRODUCTS |= {"QLinearConv", "FusedMatMul", "MoE", "QMoE", *_FUSED}


class NamedLayers:
    """The layers of a network, as far as names tell."""

    def __init__(self, graph: SourceGraph) -> None:
        self._graph = graph
        self._named = any(_layer(str(node.name)) for node in graph.nodes)
        self._nameless = self._named and any(
            node.op_type in _FUSED and not _layer(str(node.name)) for node in graph.nodes
        )
        self._last = self._last_products()

    @property
    def count(self) -> int:
        """The number of layers."""
        return len(set(self._last.values()) - {""})

    def _last_products(self) -> Mapping[str, str]:
        """For each value the layer of the last product before it; "" before the first one.

        The name of a node or of its weights tells its layer. Where no node has such a name, the
        weights up to there do.
        """
        layers: dict[str, str] = {}
        found: dict[str, str] = {}
        order: dict[str, int] = {"": 0}
        for node in self._graph.nodes:
            given = [str(value.name) for value in node.inputs if value is not None]
            weights = [name for name in given if name in self._graph.weights]
            own = [_layer(name) for name in (str(node.name), *weights)]
            if not self._named and not any(own):
                own = [layers.get(name, "") for name in given]
            layer = max(own, default="", key=lambda name: order.setdefault(name, len(order)))
            before = [layer] if node.op_type in _PRODUCTS else [found.get(one, "") for one in given]
            last = max(before, default="", key=lambda name: order[name])
            for value in node.outputs:
                layers[str(value.name)], found[str(value.name)] = layer, last
        return found

    def exchanged(self, plan: SlicePlan) -> float | None:
        """The equivalents of AllReduces in the layer that has most of them; None without names.

        A collective belongs to the layer of the last product that its operand depends on. Those of
        outputs do not count.
        """
        ends = {str(value.name) for value in self._graph.model.graph.outputs}
        found = dict.fromkeys((name for name in self._last.values() if name), 0.0)
        layout = stage_layout(self._graph, plan)
        for one in StageTraffic(self._graph, plan, layout, HostCosts()).of_stage(0):
            layer = self._last.get(one.value, "")
            if layer and one.value not in ends and not one.crosses:
                found[layer] += sum(_ALLREDUCES[kind] for kind in one.kinds)
        return None if self._nameless else max(found.values(), default=None)


def _layer(name: str) -> str:
    """The layer that a node or weight belongs to; "" if its name tells of none."""
    dotted = name.replace("/", ".").removeprefix(".model.").strip(".")
    found = _NAME.search(dotted)
    whole = dotted[: found.end()] if found else ""
    return whole.removeprefix("model.").removeprefix("transformer.")
