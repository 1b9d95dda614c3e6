"""Rank environment: the variables and arguments that a rank's process finds."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ...comm.job.rank import Rank
from ...comm.rendezvous.address import address_of_table
from ...comm.transport.key_file import keys_from_environment
from ..options.user_files import read_rank_table


def rank_variables(
    rank: Rank, devices: Sequence[int], rank_table: str | None, environ: Mapping[str, str]
) -> dict[str, str]:
    """The variables that torch.distributed's and Ascend's users expect.

    CUDA_VISIBLE_DEVICES has all devices of the job on this host in rank order, the same for every
    local rank, so that a device id means the same everywhere. Devices count among those that the
    user made visible. Of MIG instances a process sees one only: there it has the rank's own.
    """
    found = {
        "RANK": rank.rank,
        "WORLD_SIZE": rank.world_size,
        "LOCAL_RANK": rank.local_rank,
        "LOCAL_WORLD_SIZE": rank.local_size,
        "RANK_ID": rank.rank,
        "RANK_SIZE": rank.world_size,
        "DEVICE_ID": rank.device,
        "CUDA_VISIBLE_DEVICES": _visible(devices, rank.device, environ.get("CUDA_VISIBLE_DEVICES")),
        **({"RANK_TABLE_FILE": rank_table} if rank_table else {}),
    }
    return {name: str(value) for name, value in found.items()}


def _visible(devices: Sequence[int], own: int, users: str | None) -> str:
    """The devices by CUDA's names; all of the user's, where these are fewer than the job has."""
    distinct = dict.fromkeys(devices)
    if users is None:
        return ",".join(map(str, distinct))
    listed = users.split(",")
    if listed[0].strip().startswith("MIG-") and own < len(listed):
        return listed[own].strip()
    if max(distinct) >= len(listed):
        return users
    return ",".join(listed[device].strip() for device in distinct)


def replaced(arguments: Sequence[str], rank: Rank) -> list[str]:
    """Arguments with `{rank}`, `{local_rank}`, `{device}` and `{world_size}` filled in."""
    values = {
        "rank": rank.rank,
        "local_rank": rank.local_rank,
        "device": rank.device,
        "world_size": rank.world_size,
    }
    found = []
    for argument in arguments:
        for name, value in values.items():
            argument = argument.replace("{" + name + "}", str(value))
        found.append(argument)
    return found


def rendezvous_variables(rank: Rank, rank_table: str | None) -> dict[str, str]:
    """The variables by which ranks of several hosts find each other; none for a job of one host.

    Raises UsageError where there is no key file.
    """
    if rank_table is None or rank.local_size == rank.world_size:
        return {}
    keys_from_environment(os.environ)
    return address_of_table(read_rank_table(rank_table), os.environ).variables()
