"""Activations: predict the most memory that the values of a request take on one rank.

A value lives from the node that makes it to the last that needs it; a conversion makes a second
one, from its first use on. onnxruntime reuses memory in much the same way. Views count as copies.
"""

from __future__ import annotations

from collections import defaultdict

import onnx_ir as ir

from ..graph.source_graph import SourceGraph
from ..placement.placements import WHOLE, Placement
from ..placement.slice_plan import SlicePlan
from .costs import elements, itemsize

Copy = tuple[str, Placement]


def peak_activations(graph: SourceGraph, plan: SlicePlan) -> int:
    """The bytes at the worst moment, for the usual sizes of open dimensions.

    Inputs of the model count as long as they are needed, outputs to the end.
    """
    sizes: dict[Copy, int] = {}
    first: dict[Copy, int] = {}
    last: dict[Copy, int] = {}

    def note(value: ir.Value, placement: Placement, moment: int) -> None:
        copy = str(value.name), placement
        sizes[copy] = int(itemsize(value) * elements(graph.dims.get(copy[0]), placement))
        first.setdefault(copy, moment)
        last[copy] = max(last.get(copy, 0), moment)

    nodes = graph.nodes
    for value in graph.model.graph.inputs:
        note(value, WHOLE, 0)
    for moment, node in enumerate(nodes):
        for index, used in enumerate(node.inputs):
            if used is not None and not used.is_initializer():
                note(used, plan.needed(str(node.name), index), moment)
        for index, value in enumerate(node.outputs):
            note(value, plan.produced(str(node.name), index), moment)
    for value in graph.model.graph.outputs:
        note(value, WHOLE, len(nodes))
    return _peak(sizes, first, last)


def _peak(sizes: dict[Copy, int], first: dict[Copy, int], last: dict[Copy, int]) -> int:
    changes: dict[int, int] = defaultdict(int)
    for copy, size in sizes.items():
        changes[first[copy]] += size
        changes[last[copy] + 1] -= size
    live = most = 0
    for moment in sorted(changes):
        live += changes[moment]
        most = max(most, live)
    return most
