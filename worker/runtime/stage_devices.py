"""Stage devices: the ranks of a pipeline find out which of them can reach each other's devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...comm.collective_call import Kind
from ...comm.collectives.backend import Collectives, ReceivedForm
from ...comm.collectives.registry import SHARED_MEMORY
from ...comm.errors import UsageError
from ...comm.loggers import LOG
from ...comm.rendezvous.rendezvous import Rendezvous
from ..executors.base import DeviceQueue
from ..partition.fingerprint import Fingerprint

if TYPE_CHECKING:
    from ...comm.sharing.device_memory import MemoryDevice


def join_on_devices(
    collectives: Collectives,
    rendezvous: Rendezvous,
    prints: Sequence[Fingerprint],
    queue: DeviceQueue | None,
) -> None:
    """Let tensors that stages on devices of one host hand on stay there, where that is possible.

    All ranks of the job call this together; `queue` is that of this rank's device.
    """
    pairs = _pairs(prints)
    if not pairs or collectives.name != SHARED_MEMORY:
        return
    from ...comm.collectives.shared_memory import collectives as shared  # ranks of pipelines alone
    from ...comm.collectives.shared_memory.stage_tensors import hand_over_on_devices

    assert isinstance(collectives, shared.SharedMemoryCollectives)

    def make(form: ReceivedForm) -> object:
        assert queue is not None
        return queue.tensor(form.dtype, form.shape)

    device = _device(queue)
    hand_over_on_devices(collectives, rendezvous.rank, rendezvous.exchange, pairs, device, make)


def _device(queue: DeviceQueue | None) -> MemoryDevice | None:
    try:
        return queue.memory() if queue else None
    except UsageError as error:
        LOG.warning("stages hand tensors over through the host's memory: %s", error)
        return None


def _pairs(prints: Sequence[Fingerprint]) -> list[tuple[int, int]]:
    """The (source, destination) of Sends that are not in branches or loops, for the host runs
    those.
    """
    return sorted(
        {
            (one.rank, to)
            for one in prints
            for entry in one.entries
            if entry.call.kind is Kind.SEND and not entry.around
            for to in entry.destinations
            if to != one.rank
        }
    )
