"""Lite records: the tensors, nodes and graphs of a .ms file while it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....element_types import dtypes
from ....element_types.value_types import TensorType
from ....lite.flatbuffer_writer import Blob, Union

Elements = Callable[[], NDArray[Any]]
_VALUE, _COMPUTED = 0, 2
"""Kinds of tensors: those with data, and those that nodes compute."""


@dataclass(slots=True)
class TensorRecord:
    """A tensor; `elements` gives those of a constant when the file is written."""

    name: str
    type: TensorType
    elements: Elements | None = None
    last: bool = False
    """Whether it is an image whose channels come last."""

    def fields(self) -> dict[str, Any]:
        """The table of the file."""
        shape = self.type.shape
        found = {
            "name": self.name,
            "nodeType": _COMPUTED if self.elements is None else _VALUE,
            "dataType": dtypes.to_type_id(self.type.dtype),
            "dims": [-2] if shape is None else list(shape),
            "format": "NHWC" if self.last else "NCHW",
        }
        if self.elements is not None:
            found["data"] = Blob(self.type.nbytes, self.elements)
        return found


@dataclass(slots=True)
class NodeRecord:
    """A node: a primitive with its attributes, by numbers of tensors."""

    primitive: str
    inputs: list[int]
    outputs: list[int]
    attributes: dict[str, Any]


@dataclass(slots=True)
class GraphRecord:
    """One graph: its inputs and outputs by tensor, its nodes by number."""

    name: str
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)


@dataclass(slots=True)
class LiteRecords:
    """All records of a file."""

    tensors: list[TensorRecord] = field(default_factory=list)
    nodes: list[NodeRecord] = field(default_factory=list)
    graphs: list[GraphRecord] = field(default_factory=lambda: [GraphRecord("main")])

    def root(self, version: str) -> Mapping[str, Any]:
        """The root table, without tensors that nothing takes."""
        numbers = self._numbers()
        main = self.graphs[0]
        return {
            "name": main.name,
            "version": version,
            "fmkType": 3,
            "inputIndex": [numbers[one] for one in main.inputs],
            "outputIndex": [numbers[one] for one in main.outputs],
            "nodes": [self._node(at, one, numbers) for at, one in enumerate(self.nodes)],
            "allTensors": [self.tensors[one].fields() for one in numbers],
            "subGraph": [self._graph(one, numbers) for one in self.graphs],
        }

    def _numbers(self) -> dict[int, int]:
        """The new number of each tensor that is used."""
        used = {one for node in self.nodes for one in (*node.inputs, *node.outputs)}
        used |= {one for graph in self.graphs for one in (*graph.inputs, *graph.outputs)}
        return {old: new for new, old in enumerate(sorted(used))}

    def _node(self, at: int, node: NodeRecord, numbers: Mapping[int, int]) -> dict[str, Any]:
        return {
            "name": f"{node.primitive}-op{at}",
            "primitive": {"value": Union(node.primitive, node.attributes)},
            "inputIndex": [numbers[one] for one in node.inputs],
            "outputIndex": [numbers[one] for one in node.outputs],
        }

    def _graph(self, graph: GraphRecord, numbers: Mapping[int, int]) -> dict[str, Any]:
        taken = {*graph.inputs, *graph.outputs}
        for at in graph.nodes:
            taken |= {*self.nodes[at].inputs, *self.nodes[at].outputs}
        return {
            "name": graph.name,
            "inputIndices": [numbers[one] for one in graph.inputs],
            "outputIndices": [numbers[one] for one in graph.outputs],
            "nodeIndices": graph.nodes,
            "tensorIndices": sorted(numbers[one] for one in taken),
        }


def permuted(elements: Elements, order: Sequence[int]) -> Elements:
    """The elements with their axes in another order."""
    return lambda: np.ascontiguousarray(elements().transpose(order))
