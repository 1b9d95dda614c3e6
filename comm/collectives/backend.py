"""Collective backends: the protocols of a backend and of the collectives that ranks join by it.

A backend carries tensors between ranks: over shared memory, MPI or torch.distributed. registry.py
finds backends by name. Arrays are C-contiguous and lie in host memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import msgspec

from ..collective_call import Call
from ..job.rank import Rank
from ..job_memory.arena import Arena

if TYPE_CHECKING:  # numpy, which launchers do without
    import numpy as np

    from ..arrays import Shape
    from .parts import Array
    from .tracking import PendingCollective

_MPI_LAUNCHERS = ("Open MPI", "MPICH")


class JobSite(msgspec.Struct, frozen=True):
    """Where a job runs: its device (cpu, gpu, ascend), its launcher, and on how many hosts.

    `launcher` is as `LaunchIdentity.launcher` names it, "" for a supervisor of Rankmesh.
    """

    device: str
    launcher: str
    on_one_host: bool

    @property
    def under_mpi(self) -> bool:
        """Whether mpirun started the ranks."""
        return self.launcher in _MPI_LAUNCHERS


class SendCapacity(msgspec.Struct, frozen=True):
    """The chunks that one rank may send another before the Receive; 0: none is promised.

    Each message begins with a chunk of its own.
    """

    chunks: int = 0
    chunk_bytes: int = 1

    def taken_by(self, nbytes: int | None) -> int:
        """The chunks of a message of `nbytes`, at most one more than `chunks`.

        A message of unknown size (None) takes that many.
        """
        most = self.chunks + 1
        return most if nbytes is None else min(most, max(1, -(-nbytes // self.chunk_bytes)))

    @property
    def exception(self) -> str:
        """The end of the sentence "a Send waits for its Receive", where some need not wait."""
        if not self.chunks:
            return ""
        size = f"{self.chunks} chunks of {self.chunk_bytes} bytes"
        return f" unless what is under way fits into {size}"


class Membership(msgspec.Struct, frozen=True, kw_only=True):
    """One rank's part in a job, from which a backend makes its collectives.

    `groups` and `pairs` (source, destination) are the same on all ranks: all that any rank uses.
    `exchange` gives a payload and returns those of all ranks in rank order. `timeout` is in
    seconds from the first rank's entry into a collective, 0 for no deadline. `local` are the ranks
    that share `arena`. A backend adds to `pending` what the rank waits in, for the thread that
    watches for failures. `address` is rank 0's, as other hosts reach it ("": unknown).
    """

    rank: Rank
    arena: Arena
    exchange: Callable[[bytes], list[bytes]]
    groups: Sequence[tuple[int, ...]]
    pairs: Sequence[tuple[int, int]]
    timeout: float
    local: frozenset[int]
    pending: set[PendingCollective] = set()  # each Membership has its own
    address: str = ""


class Collectives(Protocol):
    """The collectives of one rank; used from one thread at a time."""

    name: str

    def run(self, call: Call, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Carry out `call`: read `inputs`, fill `outputs`, return when the outputs are ready.

        n is the size of the group; arrays have any numpy dtype unless said otherwise:

        - AllReduce: x -> same shape, reduced; `outputs[0]` may be `inputs[0]`.
        - AllGather: x[d, ...] -> [n*d, ...], the members' arrays in order of position.
        - ReduceScatter: x[n*d, ...] -> [d, ...], this member's part of the reduced array.
        - AllToAll: x[n*d, ...] -> [n*d, ...]: block p of the output is block `mine` of member p.
        - Broadcast: any number of arrays -> the same ones of member `root`; may be done in place.
        - Reduce: x -> reduced at `root`; zeros elsewhere, in whatever shape the output has there.
        - CollectiveGather: x[d, ...] -> [n*d, ...] at `root`; zeros elsewhere, likewise.
        - CollectiveScatter: x[n*d, ...] (read at `root` only) -> [d, ...].
        - Send: x goes to `sends_to[0]` (no outputs). Receive: fills outputs[0] from
          `receives_from[0]`.
        - NeighborExchange: inputs[i] goes to `sends_to[i]`, outputs[i] comes from
          `receives_from[i]`.

        Raises CollectiveTimeout, CollectiveMismatch or CollectiveAborted; the group is unusable
        after.
        """

    def close(self) -> None:
        """Free the resources of this rank, without waiting."""


class ReceivedForm(NamedTuple):
    """The element type and the shape of a tensor."""

    dtype: np.dtype[Any]
    shape: Shape


class TensorCollectives(Protocol):
    """Collectives on tensors of a device, in the order of its work; used from one thread.

    `recordable` is whether a device may capture them in a graph. `repeatable` is whether they fill
    the same tensors in every run, so that graphs may be captured around them.
    """

    recordable: bool
    repeatable: bool

    def takes(self, call: Call) -> bool:
        """Whether a call can run on tensors; others take arrays of the host."""

    def enqueue(
        self, call: Call, inputs: Sequence[Any], recording: bool, received: Sequence[ReceivedForm]
    ) -> list[Any]:
        """Put `call` behind the work so far; its results. Raises as `Collectives.run`.

        A Receive gives tensors of the forms `received`; for other calls there are none.
        With `recording` the device captures it, and nothing is noted for other ranks yet. Calls
        that are not recordable then give the tensors that each later run fills.
        """

    def recorded(self) -> Any:
        """The calls that were recorded since the last time that this was asked."""

    def following(self, entered: Any) -> AbstractContextManager[Callable[[], None]]:
        """While the device runs recorded calls; gives the check that a wait for it repeats.

        The check raises CollectiveAborted, CollectiveTimeout or CollectiveMismatch.
        """


def tensor_collectives(collectives: Collectives) -> TensorCollectives | None:
    """The same collectives on tensors of a device, where a backend has them."""
    found: TensorCollectives | None = getattr(collectives, "tensors", None)
    return found


@runtime_checkable
class CollectiveBackend(Protocol):
    """A way to carry out collectives, as registry.py finds it; it must import quickly."""

    @property
    def send_capacity(self) -> SendCapacity:
        """How much a rank may send before its peer receives."""

    def obstacle(self, site: JobSite) -> str:
        """Why the backend cannot serve a job, or "".

        The text goes on after "--collectives is NAME, ": "which needs X, and it is not installed".
        """

    def join(self, membership: Membership) -> Collectives:
        """Join the collectives of a job; all its ranks call this together."""
