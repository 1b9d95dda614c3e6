"""Stage ends: the Receives at the beginning of a stage's graph, and the Sends at its end.

Rank p of a stage exchanges with rank p of its neighbours. All Receives come first and all Sends
last, both in the order of computation, so that no ranks wait for each other in a circle, and a
stage whose successor is busy has finished its own work. The shape of a value with open dimensions
goes before the value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from ...source_graph.dims import Dims, fixed
from ..placement.local_node import LocalGraph
from ..placement.placements import Placement, Split, Windows
from ..placement.slice_plan import SlicePlan
from ..placement.wide_sums import held_dtype
from .stage_layout import StageLayout, bodies


class StageEnds:
    """Cuts one stage out of the graph of one rank, and connects it with its neighbours."""

    def __init__(
        self,
        graph: ir.Graph,
        layout: StageLayout,
        plan: SlicePlan,
        rank: int,
        dims: Mapping[str, Dims],
    ) -> None:
        """`rank` counts all ranks of the plan."""
        self._graph = graph
        self._plan = plan
        self._rank = rank
        self._dims = dims
        stage = rank // plan.ranks
        self._nodes = layout.nodes[stage]
        self._incoming = layout.crossing[stage - 1] if stage else ()
        self._outgoing = layout.crossing[stage] if stage < plan.stages - 1 else ()
        self._placements = layout.placements
        self._last = stage == plan.stages - 1
        self._outputs: list[ir.Value] = []

    @property
    def received(self) -> Mapping[str, Placement]:
        """The values that come from the stage before, and how."""
        return {name: self._placements[name] for name in self._incoming}

    @property
    def sent(self) -> Sequence[tuple[str, Placement]]:
        """The values that go to the next stage, and how, in order."""
        return [(name, self._placements[name]) for name in self._outgoing]

    def isolate(self, local: LocalGraph) -> None:
        """Remove the nodes of other stages, and receive what they computed."""
        graph = self._graph
        if not self._last:
            self._outputs = list(graph.outputs)
            graph.outputs.clear()
        made = {str(value.name): value for node in graph for value in node.outputs}
        arrivals = [node for name in self._incoming for node in self._receive(local, made[name])]
        others = [node for node in graph if str(node.name) not in self._nodes]
        for node in others:
            _detach(node)
        graph.remove(others, safe=True)
        first = next(iter(graph), None)
        if first is None:
            graph.extend(arrivals)
        else:
            graph.insert_before(first, arrivals)

    def _receive(self, local: LocalGraph, value: ir.Value) -> Iterator[ir.Node]:
        """The nodes that receive a value, which take its place."""
        name = str(value.name)
        dtype = held_dtype(value, self._placements[name])
        shape = local_shape(self._dims[name], self._placements[name], self._rank % self._plan.ranks)
        assert dtype is not None
        inputs = []
        if _open(shape):
            sizes = self._exchange(
                local, "Receive", [], f"{name}.shape", ir.DataType.INT64, [len(shape)]
            )
            sizes.outputs[0].shape = ir.Shape([len(shape)])
            yield sizes
            inputs = [sizes.outputs[0]]
        stem = f"{name}.received"
        found = self._exchange(local, "Receive", inputs, stem, dtype, [one or -1 for one in shape])
        new = found.outputs[0]
        new.shape = ir.Shape(shape)
        value.replace_all_uses_with(new, replace_graph_outputs=True)
        value.name, new.name = new.name, name
        yield found

    def send(self, local: LocalGraph, name: str, value: ir.Value) -> None:
        """Send a value, which is in the placement of its crossing, to the next stage."""
        shape = local_shape(self._dims[name], self._placements[name], self._rank % self._plan.ranks)
        if _open(shape):
            sizes = local.node("Shape", [value], f"{name}.shape", dtype=ir.DataType.INT64)
            sizes.outputs[0].shape = ir.Shape([len(shape)])
            self._graph.append(sizes)
            self._graph.append(self._exchange(local, "Send", sizes.outputs, f"{name}.shape"))
        self._graph.append(self._exchange(local, "Send", [value], name))

    def _exchange(
        self,
        local: LocalGraph,
        operator: str,
        inputs: Sequence[ir.Value],
        stem: str,
        dtype: ir.DataType | None = None,
        shape: Sequence[int] = (),
    ) -> ir.Node:
        """A Send to the next stage or a Receive from the one before."""
        plan, receives = self._plan, dtype is not None
        attributes: dict[str, object] = {
            "group": "world",
            "size": plan.world_size,
            "position": self._rank,
            "source" if receives else "to": self._rank + (-plan.ranks if receives else plan.ranks),
        }
        if dtype is not None:
            attributes |= {"shape": ir.AttrInt64s("shape", shape), "dtype": int(dtype)}
        return local.node(
            operator, inputs, stem, attributes, "rankmesh", dtype, outputs=int(receives)
        )

    def end(self, local: LocalGraph) -> None:
        """Give a stage that is not the last the model's outputs, as constants without a meaning.

        An output that is an input, or a weight that the stage uses, is what it is.
        """
        made = {str(value.name): value for node in self._graph for value in node.outputs}
        ends: dict[str, ir.Value] = {}
        for name, output in [(str(one.name), one) for one in self._outputs]:
            is_given = output.is_graph_input() or output.is_initializer() and output.uses()
            if name not in ends:
                if name in made:
                    made[name].name = local.fresh(f"{name}.local")
                ends[name] = output if is_given else self._stand_in(local, name, output)
            self._graph.outputs.append(ends[name])

    def _stand_in(self, local: LocalGraph, name: str, output: ir.Value) -> ir.Value:
        """A constant without a meaning, with a name, and the type of an output."""
        assert output.dtype is not None
        zero = local.constant(np.zeros((), output.dtype.numpy()), f"{name}.none")
        stand_in = ir.node("Identity", [zero], name=local.fresh(f"{name}.none"))
        (result,) = stand_in.outputs
        result.name, result.type, result.shape = name, output.type, output.shape
        self._graph.append(stand_in)
        return result


def local_shape(dims: Dims, placement: Placement, rank: int) -> list[int | None]:
    """The shape of a rank's part, None for open dimensions."""
    sizes: list[int | None] = [fixed(dim) for dim in dims]
    if isinstance(placement, Split | Windows):
        sizes[placement.axis] = placement.size(rank)
    return sizes


def _open(shape: Sequence[int | None]) -> bool:
    return None in shape


def _detach(node: ir.Node) -> None:
    """Take the uses of outer values away from the bodies of a node that is to go."""
    for body in bodies(node):
        body.outputs.clear()
        for inner in body.all_nodes():
            for index in range(len(inner.inputs)):
                inner.replace_input_with(index, None)
            for one in bodies(inner):
                one.outputs.clear()
