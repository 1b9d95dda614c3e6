"""Collective choice: the backend of a job, once its ranks know each other's shards and devices."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ...comm.collective_call import ONE_WAY
from ...comm.collectives.device_choice import choose_on_devices
from ...comm.collectives.registry import SHARED_MEMORY, BackendChoice, backend_named
from ...comm.errors import UsageError
from .deadlock_check import find_deadlock
from .fingerprint import Fingerprint


def agreed_choice(prints: Sequence[Fingerprint]) -> BackendChoice:
    """The backend that the ranks were asked for, or that suits the host; the same on all ranks.

    Raises UsageError where the ranks were asked for several.
    """
    first = prints[0].collectives
    for one in prints:
        if one.collectives.name != first.name:
            raise UsageError(
                f"rank 0 exchanges tensors by {first}, and rank {one.rank} by {one.collectives}: "
                "set RANKMESH_COLLECTIVES alike on all ranks."
            )
    return first


def choice_by_devices(prints: Sequence[Fingerprint]) -> BackendChoice:
    """The backend for shards that fit together; the same on all ranks.

    Messages alone need no other one on one host: stages hand tensors over in their devices' memory.
    """
    choice = agreed_choice(prints)
    if choice.name == SHARED_MEMORY and not any(map(_has_group, prints)):
        return choice
    found = choose_on_devices(choice, [one.place for one in prints])
    if found.name == choice.name:
        return found
    if find_deadlock(prints, backend_named(found.name).send_capacity):
        reason = f"{choice.reason}, and with {found.name} a Send would wait for ever"
        return msgspec.structs.replace(choice, reason=reason)
    return found


def _has_group(one: Fingerprint) -> bool:
    """Whether a shard has a collective of several ranks, apart from messages."""
    return any(
        entry.call.group.size > 1 and entry.call.kind not in ONE_WAY for entry in one.entries
    )
