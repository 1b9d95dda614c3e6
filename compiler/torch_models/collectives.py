"""Collectives of torch modules: public functions, each also a node of an exported file.

Each works on an axis of its choice: the nodes know axis 0 only, so the two change places, and back.
Axes are counted from the front, as the TorchScript exporter writes negative ones into Transpose.
"""

from __future__ import annotations

import torch

from ...comm.collective_call import Kind, Reduction
from ...comm.errors import UsageError
from .exported_node import ExportedNode, dynamo_node
from .group import WORLD, Group
from .operator import ReduceGradient, collective


def all_reduce(x: torch.Tensor, reduction: str = "sum", group: Group = WORLD) -> torch.Tensor:
    """`x` reduced over the ranks of a group, equal on all of them.

    `reduction` is "sum", "max", "min" or "prod". A sum passes its gradient on as it is. That is
    Megatron's g, which ends a block that the ranks compute in parts.
    """
    return _run(x, ExportedNode.of(Kind.ALL_REDUCE, group, reduction))


def reduce_gradient(x: torch.Tensor, group: Group = WORLD) -> torch.Tensor:
    """`x` itself, whose gradient is summed over the ranks of a group.

    That is Megatron's f, which begins a block that the ranks compute in parts. Only training needs
    it: a file has no node for it.
    """
    if torch.onnx.is_in_onnx_export() or torch.compiler.is_compiling():
        return x
    result: torch.Tensor = ReduceGradient.apply(x, group)
    return result


def all_gather(x: torch.Tensor, axis: int = 0, group: Group = WORLD) -> torch.Tensor:
    """The tensors of all ranks of a group, joined along an axis in order of position.

    The gradient of `x` is this rank's part of the result's gradient.
    """
    node = ExportedNode.of(Kind.ALL_GATHER, group)
    return _along(x, axis, node)


def reduce_scatter(
    x: torch.Tensor, reduction: str = "sum", axis: int = 0, group: Group = WORLD
) -> torch.Tensor:
    """This rank's part, along an axis, of `x` reduced over the ranks of a group.

    The number of ranks must divide the axis. The gradient of `x` has the gradients of all parts.
    """
    node = ExportedNode.of(Kind.REDUCE_SCATTER, group, reduction)
    return _along(x, axis, node)


def all_to_all(
    x: torch.Tensor, split_axis: int = 0, concat_axis: int = 0, group: Group = WORLD
) -> torch.Tensor:
    """`x` split along one axis; the parts that this rank receives, joined along another.

    Rank p receives part p of each rank, in order of position. The number of ranks must divide
    `split_axis`. The gradient takes the way back.
    """
    node = ExportedNode.of(Kind.ALL_TO_ALL, group)
    received = _along(x, split_axis, node)
    split, concat = _axis(x, split_axis), _axis(x, concat_axis)
    if split == concat:
        return received
    blocks = received.unflatten(split, (node.rank_count(), -1))
    return blocks.movedim(split, concat).flatten(concat, concat + 1)


def broadcast(x: torch.Tensor, root: int = 0, group: Group = WORLD) -> torch.Tensor:
    """The tensor of the rank at position `root` of a group; all have the same shape."""
    return _run(x, ExportedNode.of(Kind.BROADCAST, group, root=root))


def _along(x: torch.Tensor, axis: int, node: ExportedNode) -> torch.Tensor:
    """The result of a collective along an axis."""
    place = _axis(x, axis)
    if place == 0:
        return _run(x, node)
    return _run(x.transpose(0, place), node).transpose(0, place)


def _axis(x: torch.Tensor, axis: int) -> int:
    """The number of an axis, counted from the front."""
    if not -x.ndim <= axis < x.ndim:
        raise UsageError(
            f"a collective got the axis {axis} of a tensor of the shape {list(x.shape)}: expected "
            f"{-x.ndim} to {x.ndim - 1}."
        )
    return axis % int(x.ndim)


def _run(x: torch.Tensor, node: ExportedNode) -> torch.Tensor:
    known = [one.value for one in Reduction]
    if node.reduction not in known:
        raise UsageError(
            f"{node.kind} got the reduction '{node.reduction}', expected {', '.join(known)}."
        )
    if torch.onnx.is_in_onnx_export() and not torch.jit.is_tracing():
        return dynamo_node(x, node)
    result: torch.Tensor = collective(x, *node)
    return result
