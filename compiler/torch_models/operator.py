"""Operator `rankmesh::collective` of torch: its results, shapes, gradients and ONNX nodes.

All collectives are one operator, so it is registered once for each use: eager mode, tracing with
fake tensors, gradients, and both exporters.

Gradients follow one rule. A replicated value, equal on all ranks, has an equal gradient on all of
them; the gradient of a part is a part; and all summands of a sum have the gradient of the sum.
"""

from __future__ import annotations

from typing import Any

import torch

from ...comm.collective_call import Kind
from ...comm.errors import UsageError
from .exported_node import ExportedNode, torchscript_node
from .group import Group
from .process_groups import members_of

_NAME = "rankmesh::collective"
_SCHEMA = (
    "(Tensor x, str kind, str reduction, int root, str group, int[] ranks, int size, int position)"
    " -> Tensor"
)


def _carry_out(x: torch.Tensor, *arguments: Any) -> torch.Tensor:
    """Carry out a collective; without other ranks the result is a copy of `x`.

    An exporter that traces with real tensors gets zeros of the right shape.
    """
    node = ExportedNode(*arguments)
    if torch.onnx.is_in_onnx_export():
        return x.new_zeros(node.shape(x.shape))
    members = members_of(node.members)
    if members is None:
        return x.clone()
    node.shape(x.shape)  # refuses an axis that the ranks cannot divide
    return members.carry_out(Kind(node.kind), x, node.reduction, node.root)


def _fake(x: torch.Tensor, *arguments: Any) -> torch.Tensor:
    return x.new_empty(ExportedNode(*arguments).shape(x.shape))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.node = ExportedNode(*inputs[1:])


def _backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    node: ExportedNode = ctx.node
    return (_gradient(node, gradient), *(None for _ in node))


def _gradient(node: ExportedNode, gradient: torch.Tensor) -> torch.Tensor:
    """The gradient of the input, from that of the result."""
    if node.reduction != "sum":
        raise UsageError(
            f"{node.kind} with the reduction '{node.reduction}' has no gradient: use 'sum', or "
            "detach its input."
        )
    members = members_of(node.members)
    if members is None:
        return gradient
    match Kind(node.kind):
        case Kind.ALL_GATHER:
            return members.part(gradient)
        case Kind.REDUCE_SCATTER:
            return members.all_gather(gradient)
        case Kind.ALL_TO_ALL:
            return members.all_to_all(gradient)
        case Kind.BROADCAST if members.position != node.root:
            return torch.zeros_like(gradient)
        case _:
            return gradient


class ReduceGradient(torch.autograd.Function):  # type: ignore[misc]  # torch is Any to mypy
    """The identity, whose gradient is summed over the ranks of a group."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: Group) -> torch.Tensor:
        """`x` itself."""
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """The sum of the gradients of all members."""
        members = members_of(ctx.group)
        return (gradient if members is None else members.all_reduce(gradient, "sum")), None


# The first call of a `torch.library.custom_op` imports torch._dynamo, and with it modules whose
# default arguments keep the world's process group: torch.distributed could not end its threads.
torch.library.define(_NAME, _SCHEMA)
torch.library.impl(_NAME, "CompositeExplicitAutograd")(_carry_out)
torch.library.register_fake(_NAME)(_fake)
torch.library.register_autograd(_NAME, _backward, setup_context=_keep)
torch.onnx.register_custom_op_symbolic(_NAME, torchscript_node, 1)
collective = torch.ops.rankmesh.collective
