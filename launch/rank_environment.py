"""What a user's own script finds in its environment and arguments, on every rank (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..comm.rank import Rank


def rank_variables(rank: Rank, devices: Sequence[int], rank_table: str | None,
                   environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that torch.distributed's and Ascend's users expect.

    CUDA_VISIBLE_DEVICES has all devices of the job on this host in rank order, the same for every local rank, so that
    a device id means the same everywhere. Devices count among those that the user made visible.
    """
    found = {
        "RANK": rank.rank, "WORLD_SIZE": rank.world_size, "LOCAL_RANK": rank.local_rank,
        "LOCAL_WORLD_SIZE": rank.local_size, "RANK_ID": rank.rank, "RANK_SIZE": rank.world_size,
        "DEVICE_ID": rank.device, "CUDA_VISIBLE_DEVICES": _visible(devices, environ.get("CUDA_VISIBLE_DEVICES")),
        **({"RANK_TABLE_FILE": rank_table} if rank_table else {}),
    }
    return {name: str(value) for name, value in found.items()}


def _visible(devices: Sequence[int], users: str | None) -> str:
    """Devices as CUDA knows them; where the user made fewer visible than the job has, all of the user's."""
    distinct = dict.fromkeys(devices)
    if users is None:
        return ",".join(map(str, distinct))
    listed = users.split(",")
    return ",".join(listed[device].strip() for device in distinct) if max(distinct) < len(listed) else users


def replaced(arguments: Sequence[str], rank: Rank) -> list[str]:
    """Arguments with `{rank}`, `{local_rank}`, `{device}` and `{world_size}` filled in; other braces stay."""
    values = {"rank": rank.rank, "local_rank": rank.local_rank, "device": rank.device, "world_size": rank.world_size}
    found = []
    for argument in arguments:
        for name, value in values.items():
            argument = argument.replace("{" + name + "}", str(value))
        found.append(argument)
    return found
