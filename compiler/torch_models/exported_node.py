"""Exported nodes: collectives of a torch module as ONNX nodes of the domain `rankmesh`.

docs/onnx-collectives.md describes the nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.onnx import symbolic_helper

from ...comm.collective_call import REDUCING, Kind
from ...comm.errors import UsageError
from .group import Group
from .process_groups import group_size

_DIVIDED = (Kind.REDUCE_SCATTER, Kind.ALL_TO_ALL)


class ExportedNode(NamedTuple):
    """A collective, by the arguments of the torch operator `rankmesh::collective`."""

    kind: str
    reduction: str
    root: int
    group: str
    ranks: Sequence[int]
    size: int
    position: int

    @classmethod
    def of(cls, kind: Kind, group: Group, reduction: str = "sum", root: int = 0) -> ExportedNode:
        """The node of a collective among the members of a group."""
        place = group.name, list(group.ranks), group.size, group.position
        return cls(kind.value, reduction, root, *place)

    @property
    def members(self) -> Group:
        """The group of the collective."""
        return Group(self.group, tuple(self.ranks), self.size, self.position)

    def attributes(self) -> dict[str, Any]:
        """The attributes of the ONNX node; what a group leaves open is left out."""
        kind = Kind(self.kind)
        found: dict[str, Any] = {"group": self.group}
        if kind in REDUCING:
            found["reduction"] = self.reduction
        if kind is Kind.BROADCAST:
            found["root"] = self.root
        if self.ranks:
            found["ranks"] = list(self.ranks)
        if self.size:
            found["size"] = self.size
        if self.position >= 0:
            found["position"] = self.position
        return found

    def shape(self, shape: Sequence[Any]) -> list[Any]:
        """The shape of the result; UsageError where the input or the group cannot give it."""
        kind = Kind(self.kind)
        if kind in (Kind.ALL_REDUCE, Kind.BROADCAST):
            return list(shape)
        size = self.rank_count()
        divides = kind not in _DIVIDED or not isinstance(shape[0], int) or shape[0] % size == 0
        if not divides:
            raise UsageError(
                f"{self.kind} in the group '{self.group}' got an axis of {shape[0]}, expected a "
                f"multiple of {size}, the number of ranks."
            )
        first = shape[0]
        if kind is Kind.ALL_GATHER:
            first *= size
        elif kind is Kind.REDUCE_SCATTER:
            first //= size
        return [first, *shape[1:]]

    def rank_count(self) -> int:
        """The number of ranks; UsageError where it is needed and open."""
        size = group_size(self.members)
        if not size:
            raise UsageError(
                f"{self.kind} in the group '{self.group}' needs the number of ranks for the shape "
                "of its result: state it, as in Group(size=2)."
            )
        return size


def dynamo_node(x: torch.Tensor, node: ExportedNode) -> torch.Tensor:
    """The node in a program that torch.onnx.export(dynamo=True) captures."""
    name, shape = f"rankmesh::{node.kind}", node.shape(x.shape)
    made: torch.Tensor = torch.onnx.ops.symbolic(
        name, (x,), node.attributes(), dtype=x.dtype, shape=shape, version=1
    )
    return made


def _torchscript_node(
    graph: Any,
    x: Any,
    kind: str,
    reduction: str,
    root: int,
    group: str,
    ranks: Sequence[int],
    size: int,
    position: int,
) -> Any:
    """The node in a graph of the TorchScript exporter."""
    node = ExportedNode(kind, reduction, root, group, ranks, size, position)
    typed = {
        f"{key}_{'s' if isinstance(value, str) else 'i'}": value
        for key, value in node.attributes().items()
    }
    made = graph.op(f"rankmesh::{node.kind}", x, **typed)
    sizes = x.type().sizes()
    if sizes is None:
        return made
    known = node.kind in (Kind.ALL_REDUCE, Kind.BROADCAST) or sizes[0] is not None
    result = node.shape(sizes) if known else sizes
    return made.setType(x.type().with_sizes(result))


torchscript_node = symbolic_helper.parse_args("v", "s", "s", "i", "s", "is", "i", "i")(
    _torchscript_node
)


def to_onnx_nodes(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """A captured program with its collectives as nodes, which torch.onnx.export then takes.

    A module needs no such step. The result is for the exporter only: run in Python, it gives zeros.
    """

    def node(x: torch.Tensor, *arguments: Any) -> torch.Tensor:
        return dynamo_node(x, ExportedNode(*arguments))

    return program.run_decompositions({torch.ops.rankmesh.collective.default: node})
