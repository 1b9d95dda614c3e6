"""Gradients of sliced torch modules, against those of the whole module, on one of two ranks.

python torch_gradients.py STORE RANK
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

import rankmesh.torch as mesh
from rankmesh import UsageError

TOLERANCE = 1e-5


def same(name: str, got: torch.Tensor | None, expected: torch.Tensor | None) -> None:
    """Require equal values, relative to the largest expected one."""
    assert got is not None and expected is not None, name
    assert got.shape == expected.shape, f"{name}: {got.shape}, expected {expected.shape}"
    difference = float((got - expected).detach().abs().max() / expected.detach().abs().max())
    assert difference <= TOLERANCE, f"{name}: {difference}"


def leaf(x: torch.Tensor) -> torch.Tensor:
    """A tensor of its own whose gradient is kept."""
    return x.detach().clone().requires_grad_()


def columns_and_rows(rank: int) -> None:
    """Megatron's pair, around an MLP cut by columns and then by rows."""
    x, w1, w2 = (leaf(torch.randn(*shape)) for shape in ((3, 4), (4, 6), (6, 4)))
    (torch.relu(x @ w1) @ w2).square().sum().backward()
    mine = slice(3 * rank, 3 * rank + 3)
    part_x, part1, part2 = leaf(x), leaf(w1[:, mine]), leaf(w2[mine])
    y = mesh.all_reduce(torch.relu(mesh.reduce_gradient(part_x) @ part1) @ part2)
    y.square().sum().backward()
    same("x", part_x.grad, x.grad)
    same("w1", part1.grad, w1.grad[:, mine])
    same("w2", part2.grad, w2.grad[mine])


def sequence_parts(rank: int) -> None:
    """A partial sum scattered along an axis, scaled, and gathered again."""
    x, w, scale = (leaf(torch.randn(*shape)) for shape in ((5, 6), (6, 4), (4,)))
    (x @ w * scale).square().sum().backward()
    mine, half = slice(3 * rank, 3 * rank + 3), slice(2 * rank, 2 * rank + 2)
    part_w, part_scale = leaf(w[mine]), leaf(scale[half])
    part = mesh.reduce_scatter(x.detach()[:, mine] @ part_w, axis=1) * part_scale
    mesh.all_gather(part, axis=-1).square().sum().backward()
    same("w", part_w.grad, w.grad[mine])
    same("scale", part_scale.grad, scale.grad[half])


def exchanged_parts(rank: int) -> None:
    """Rows become columns, as the attention of Ulysses has it, and a weight of each column."""
    x, weight = (leaf(torch.randn(*shape)) for shape in ((4, 6), (6,)))
    (x.cumsum(0) * weight).square().sum().backward()
    rows, half = slice(2 * rank, 2 * rank + 2), slice(3 * rank, 3 * rank + 3)
    part_x, part_weight = leaf(x[rows]), leaf(weight[half])
    whole_columns = mesh.all_to_all(part_x, split_axis=1, concat_axis=0)
    y = mesh.all_to_all(whole_columns.cumsum(0) * part_weight, split_axis=0, concat_axis=1)
    y.square().sum().backward()
    same("x", part_x.grad, x.grad[rows])
    same("weight", part_weight.grad, weight.grad[half])


def from_one_rank(rank: int) -> None:
    """Only the root's tensor counts."""
    x = leaf(torch.randn(3))
    mesh.broadcast(x, root=1).square().sum().backward()
    assert x.grad is not None
    same("root", x.grad, 2 * x) if rank == 1 else same("other", x.grad + 1, torch.ones(3))


def without_gradient() -> None:
    """A maximum has no gradient across ranks."""
    x = leaf(torch.randn(3))
    try:
        mesh.all_reduce(x, "max").sum().backward()
    except RuntimeError as error:
        assert "AllReduce with the reduction 'max' has no gradient" in str(error), error
    else:
        raise AssertionError("a maximum got a gradient")


def refused(rank: int) -> None:
    """Groups that do not fit the job are refused before anything is exchanged."""
    x = torch.ones(3)
    for group, message in (
        (mesh.Group(size=3), "is for 3 ranks and torch.distributed has 2: start 3."),
        (mesh.Group("far", (0, 5)), "is for 6 ranks or more and torch.distributed has 2"),
        (mesh.Group("other", (1 - rank,)), "give it a group of its own"),
        (mesh.Group(size=2, position=1 - rank), "give each rank its own shard"),
    ):
        refuses(partial(mesh.all_reduce, x, group=group), message)
    refuses(partial(mesh.reduce_scatter, x), "got an axis of 3, expected a multiple of 2")
    refuses(partial(mesh.broadcast, x, root=2), "got the root 2, expected a position from 0 to 1")
    same("alone", mesh.all_reduce(x, group=mesh.Group("own", (rank,))), x)


def refuses(call: Callable[[], object], message: str) -> None:
    """Require a UsageError with the message."""
    try:
        call()
    except UsageError as error:
        assert message in str(error), error
    else:
        raise AssertionError(f"not refused: {message}")


def check_gradients(rank: int) -> None:
    """All of the above; AssertionError where one is wrong."""
    torch.manual_seed(3)
    for check in (columns_and_rows, sequence_parts, exchanged_parts, from_one_rank):
        check(rank)
    without_gradient()
