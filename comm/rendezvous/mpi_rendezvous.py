"""Rendezvous through MPI: ranks that mpirun started; those of one host also share an arena.

Import this under mpirun only: MPI alone leaves a segment of shared memory behind.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..collectives.arrival_table import ArrivalTable
from ..collectives.backend import Collectives
from ..collectives.registry import MPI, BackendChoice, backend_named
from ..collectives.tracking import PendingCollective
from ..errors import RankFailed, UsageError
from ..job.identity import detect
from ..job.rank import Rank
from ..job_memory.arena import Arena
from ..job_memory.host_peers import meet_host_peers
from ..job_memory.progress import Progress, Stage
from ..transport.local_socket import socket_path
from .failure_monitor import FailureMonitor
from .local_rendezvous import join_locally
from .monitored_rendezvous import MonitoredRendezvous
from .mpi_processes import launch_name, running_ranks, unname_segments
from .rendezvous import Groups, Pairs

try:
    from ..collectives.libraries import mpi
except (ImportError, RuntimeError) as error:  # RuntimeError: mpi4py finds no MPI library
    raise UsageError(
        f"mpirun started this process, and mpi4py cannot be imported ({error}): install it with "
        "`pip install 'rankmesh[mpi]'`, or start the ranks with `rankmesh launch`."
    ) from error

_TRANSPORTS = {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,sm"}
"""Transports of Open MPI for one host; trying all that it has would take a second."""

_FORKED = 0.5
"""Seconds in which a launcher starts all ranks of its host."""


class _MpiStart(PendingCollective):
    """The start of MPI, in which not every MPI tells of a rank that has ended."""

    def __init__(self, arena: Arena, all_ranks: ArrivalTable) -> None:
        super().__init__("the start of MPI", [all_ranks])
        self._arena = arena
        self._next_look = time.monotonic() + _FORKED

    def missing(self) -> list[int]:
        """See PendingCollective.missing; notes the missing ranks that have ended."""
        missing = super().missing()
        if missing and time.monotonic() > self._next_look:
            running = running_ranks()
            for rank in missing if running else ():
                if rank not in running:
                    Progress(self._arena, rank).stage = Stage.ENDED
            self._next_look = time.monotonic() + _FORKED
        return missing


class MpiRendezvous(MonitoredRendezvous):
    """The rendezvous of one rank; from here on a failure of any rank ends the job.

    See FailureMonitor. An exception that leaves the program ends the job with status 1, a
    RankmeshError with its exit code. Ranks wait `timeout` seconds for each other, 0: for ever.
    Raises UsageError where MPI contradicts `rank`.
    """

    choice = BackendChoice(MPI, "mpirun started the ranks")
    """See Rendezvous.choice."""

    def __init__(self, rank: Rank, timeout: float) -> None:
        key = launch_name()
        channel, arena, _ = join_locally(rank, key, timeout)
        # Open until the exit: the other ranks take its end for the end of this rank.
        atexit.register(channel.close)
        socket = Path(socket_path(key))
        monitor = FailureMonitor(rank, arena, timeout, socket, mpi.finish)
        super().__init__(rank, timeout, arena, monitor)
        monitor.start()
        on_one_host = rank.local_size == rank.world_size
        if on_one_host:
            self._local = frozenset(range(rank.world_size))
        self._table = self._open_table()
        if on_one_host:
            _prefer_shared_memory()
        with self._all_together(_MpiStart(self._arena, self._table)):
            self._world = mpi.start()
        self._backend = mpi.MpiWorld(self._world)
        _check(rank, self._world.rank, self._world.size)
        self._meet_host_peers()
        unname_segments()
        socket.unlink(missing_ok=True)

    def exchange(self, payload: bytes) -> list[bytes]:
        """See Rendezvous.exchange; a rank that does not come ends the job."""
        with self._all_together(PendingCollective("an exchange of all ranks", [self._table])):
            return mpi.exchange(self._world, payload)

    def collectives(self, groups: Groups, pairs: Pairs) -> Collectives:
        """See Rendezvous.collectives."""
        membership = self._membership(groups, pairs, self._local)
        if self.choice.name != MPI:
            return backend_named(self.choice.name).join(membership)
        with self._all_together(PendingCollective("the making of groups", [self._table])):
            return self._backend.join(membership)

    def _meet_host_peers(self) -> None:
        """Learn which ranks share this arena, and watch their processes."""
        self._watch(meet_host_peers(self.exchange, self._arena))
        self._table = self._open_table()

    def _open_table(self) -> ArrivalTable:
        """A table of all ranks, which shows the arrivals of those in `_local`."""
        members = tuple(range(self.rank.world_size))
        return ArrivalTable.open(self._arena, self.rank.rank, members, self._local)

    @contextmanager
    def _all_together(self, pending: PendingCollective) -> Iterator[None]:
        """A step that needs all ranks; the failure monitor keeps its deadline."""
        self._table.arrive(0)
        self._monitor.pending.add(pending)
        try:
            yield
        except mpi.Error as error:
            raise RankFailed(f"{self.rank}: MPI failed in {pending}: {error}") from error
        finally:
            self._monitor.pending.discard(pending)
        self._table.leave()


def _check(rank: Rank, said: int, size: int) -> None:
    if (said, size) == (rank.rank, rank.world_size):
        return
    mark = next(iter(detect().marks), None)
    variables = (
        ", ".join(f"{name}={value}" for name, value in mark.variables.items())
        if mark
        else "nothing"
    )
    raise UsageError(
        f"the environment ({variables}) says rank {rank.rank} of {rank.world_size}, and MPI itself "
        f"says rank {said} of {size}: mpirun belongs to another MPI than mpi4py. Start the ranks "
        "with the mpirun of mpi4py's MPI (`python -m mpi4py --mpi-lib-version` names it), or "
        "install mpi4py for this one."
    )


def _prefer_shared_memory() -> None:
    """Choose Open MPI's transports for one host, unless the user chose any.

    Other MPIs do not read these variables.
    """
    chosen = [name for name in os.environ if name in (*_TRANSPORTS, "OMPI_MCA_mtl")]
    settings = os.path.expanduser("~/.openmpi/mca-params.conf")  # missing for a user without a home
    if not chosen and not os.path.exists(settings):
        os.environ.update(_TRANSPORTS)
