"""Process groups: collectives of a torch module in eager mode, carried out by torch.distributed.

Tensors are in the order of positions; a process group has its own order, that of ranks. Not all
versions of gloo have ReduceScatter: it reduces everything and keeps a part.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist

from ...comm.collective_call import Kind
from ...comm.errors import UsageError
from ...comm.text import counted
from .group import Group

# The groups made in a world, by their ranks. They go with it: torch.distributed ends the threads of
# a group that nothing holds, and a thread that is left ends the process at its exit.
_MADE: WeakKeyDictionary[dist.ProcessGroup, dict[tuple[int, ...], dist.ProcessGroup]] = (
    WeakKeyDictionary()
)
_OPERATIONS = {
    "sum": dist.ReduceOp.SUM,
    "max": dist.ReduceOp.MAX,
    "min": dist.ReduceOp.MIN,
    "prod": dist.ReduceOp.PRODUCT,
}


class GroupMembers:
    """The ranks of a group in this job; `position` is that of this process."""

    def __init__(self, ranks: tuple[int, ...]) -> None:
        self.ranks = ranks
        self.position = ranks.index(dist.get_rank())
        self._order = [sorted(ranks).index(rank) for rank in ranks]
        self._group = _process_group(ranks)

    def carry_out(self, kind: Kind, x: torch.Tensor, reduction: str, root: int) -> torch.Tensor:
        """The result of one collective among the members."""
        match kind:
            case Kind.ALL_REDUCE:
                return self.all_reduce(x, reduction)
            case Kind.REDUCE_SCATTER:
                return self.part(self.all_reduce(x, reduction))
            case Kind.ALL_GATHER:
                return self.all_gather(x)
            case Kind.ALL_TO_ALL:
                return self.all_to_all(x)
            case _:
                return self.broadcast(x, root)

    def all_reduce(self, x: torch.Tensor, reduction: str) -> torch.Tensor:
        """The tensors of all members, reduced."""
        whole = x.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(whole, _OPERATIONS[reduction], self._group)
        return whole

    def all_gather(self, x: torch.Tensor) -> torch.Tensor:
        """The tensors of all members along axis 0."""
        parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in self.ranks]
        dist.all_gather(parts, x.contiguous(), self._group)
        return torch.cat([parts[place] for place in self._order])

    def all_to_all(self, x: torch.Tensor) -> torch.Tensor:
        """Block p of the result is this member's block of member p."""
        blocks = x.chunk(len(self.ranks))
        places = sorted(range(len(blocks)), key=self._order.__getitem__)
        sent = torch.cat([blocks[position] for position in places])
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent, group=self._group)
        got = received.chunk(len(self.ranks))
        return torch.cat([got[place] for place in self._order])

    def broadcast(self, x: torch.Tensor, root: int) -> torch.Tensor:
        """The tensor of the member at position `root`."""
        if not 0 <= root < len(self.ranks):
            raise UsageError(
                f"broadcast got the root {root}, expected a position from 0 to "
                f"{len(self.ranks) - 1}."
            )
        whole = x.clone(memory_format=torch.contiguous_format)
        dist.broadcast(whole, self.ranks[root], self._group)
        return whole

    def part(self, x: torch.Tensor) -> torch.Tensor:
        """This member's part along axis 0, as a tensor of its own."""
        return x.chunk(len(self.ranks))[self.position].clone()


def members_of(group: Group) -> GroupMembers | None:
    """The members of a group in this job; None where this process is alone in it.

    A group of size 1 without ranks is this process, whose module is whole. Raises UsageError where
    the group does not fit the job.
    """
    if group.size == 1 and not group.ranks:
        return None
    if not dist.is_initialized():
        _require_alone(group)
        return None
    ranks = group.ranks or tuple(range(dist.get_world_size()))
    _check(group, ranks)
    return GroupMembers(ranks)


def group_size(group: Group) -> int:
    """The number of members: as stated, else the size of the job.

    A process without a job is alone, unless it exports a module: then the number is open, as 0.
    """
    if group.size or dist.is_initialized():
        return group.size or dist.get_world_size()
    return 0 if torch.onnx.is_in_onnx_export() or torch.compiler.is_compiling() else 1


def _require_alone(group: Group) -> None:
    """Refuse to take one of several ranks for the only one."""
    started = os.environ.get("WORLD_SIZE", "")
    size = group.size or (int(started) if started.isdecimal() else 1)
    if size > 1:
        raise UsageError(
            f"a collective of the group '{group.name}' is for {counted(size, 'rank')}, and "
            "torch.distributed is not initialized: call torch.distributed.init_process_group on "
            "each rank, or export the module and start it with `rankmesh run`."
        )


def _check(group: Group, ranks: Sequence[int]) -> None:
    """Refuse a group that does not fit this process."""
    rank, world = dist.get_rank(), dist.get_world_size()
    if max(ranks) >= world or group.size not in (0, len(ranks)):
        wanted = max(ranks) + 1 if group.ranks else group.size
        raise UsageError(
            f"a collective of the group '{group.name}' is for {counted(wanted, 'rank')} "
            f"{'or more ' if group.ranks else ''}and torch.distributed has {world}: start "
            f"{wanted}."
        )
    if rank not in ranks:
        raise UsageError(
            f"rank {rank} takes part in a collective of the group '{group.name}', which is ranks "
            f"{list(ranks)}: give it a group of its own."
        )
    if group.position not in (-1, ranks.index(rank)):
        raise UsageError(
            f"rank {rank} is member {ranks.index(rank)} of the group '{group.name}', and its "
            f"module is the shard of member {group.position}: give each rank its own shard."
        )


def _process_group(ranks: tuple[int, ...]) -> dist.ProcessGroup:
    """The process group of some ranks; only these ranks call this."""
    world = dist.group.WORLD
    if len(ranks) == dist.get_world_size():
        return world
    made = _MADE.setdefault(world, {})
    if ranks not in made:
        made[ranks] = dist.new_group(sorted(ranks), use_local_synchronization=True)
    return made[ranks]
