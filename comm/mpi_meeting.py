"""Where ranks that mpirun started meet: through MPI; those of one host also share an arena.

Imported under mpirun only, as MPI alone leaves a segment behind.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .arena import Arena
from .collectives.attendance import Attendance, open_lists
from .collectives.base import Collectives
from .collectives.choose import MPI
from .collectives.join import join_collectives
from .collectives.register import Register, Roll
from .errors import RankFailed, UsageError
from .identity import detect
from .local_meeting import join_locally, watch_processes
from .local_socket import socket_path
from .mpi_segments import unname_segments
from .neighbours import meet_neighbours
from .progress import Progress, Stage
from .rank import Rank
from .rendezvous import Groups, Pairs
from .siblings import launch_name, running_ranks
from .watch import Watch

try:
    from .collectives import mpi
except (ImportError, RuntimeError) as error:  # RuntimeError: mpi4py finds no MPI library
    raise UsageError(f"mpirun started this process, and mpi4py cannot be imported ({error}): install it with `pip "
                     f"install 'rankmesh[mpi]'`, or start the ranks with `rankmesh launch`.") from error

_TRANSPORTS = {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,sm"}
"""What Open MPI needs on one host; left to itself it tries all it has, which takes a second."""

_FORKED = 0.5
"""Seconds after which a launcher has surely started all ranks of its host."""


class _Start(Roll):
    """Where ranks wait for all to start MPI: not every MPI tells them of one that ended before."""

    def __init__(self, arena: Arena, everybody: Attendance) -> None:
        super().__init__("the start of MPI", [everybody])
        self._arena = arena
        self._next_look = time.monotonic() + _FORKED

    def missing(self) -> list[int]:
        """See Roll.missing; who has ended is noted as such."""
        missing = super().missing()
        if missing and time.monotonic() > self._next_look:
            running = running_ranks()
            for rank in missing if running else ():
                if rank not in running:
                    Progress(self._arena, rank).stage = Stage.ENDED
            self._next_look = time.monotonic() + _FORKED
        return missing


class MpiMeeting:
    """One rank's way to the others. From here on the job ends when one of its ranks fails: see `Watch`.

    An exception that leaves the program ends the job with status 1 (a RankmeshError: with its exit code). `timeout`
    is how many seconds ranks wait for each other, 0 for ever. Raises UsageError where MPI contradicts `rank`.
    """

    implementation = MPI
    """The name of the collectives to join; set it on all ranks alike (see `choose_collectives`)."""

    def __init__(self, rank: Rank, timeout: float) -> None:
        self.rank, self._timeout = rank, timeout
        key = launch_name()
        channel, self._arena = join_locally(rank, key, timeout)
        atexit.register(channel.close)  # until then it stays open, as others take its end for the end of this rank
        self._progress = Progress(self._arena, rank.rank)
        self._watch = Watch(rank, self._arena, timeout, Path(socket_path(key)), mpi.finish)
        self._communicators: mpi.Communicators = {}
        self._watch.start()
        on_one_host = rank.local_size == rank.world_size
        self._know(frozenset(range(rank.world_size) if on_one_host else [rank.rank]))
        if on_one_host:
            _prefer_shared_memory()
        with self._all_together(_Start(self._arena, self._list)):
            self._world = mpi.start()
        _check(rank, self._world.rank, self._world.size)
        self._meet_neighbours()
        unname_segments()
        Path(socket_path(key)).unlink(missing_ok=True)

    def enter(self, stage: Stage) -> None:
        """See Meeting.enter."""
        self._progress.stage = stage

    def exchange(self, payload: bytes) -> list[bytes]:
        """See Meeting.exchange; a rank that does not come ends the job."""
        with self._all_together(Roll("an exchange of all ranks", [self._list])):
            return mpi.exchange(self._world, payload)

    def collectives(self, groups: Groups, pairs: Pairs) -> Collectives:
        """See Meeting.collectives."""
        if self.implementation != MPI:
            return join_collectives(self.implementation, self.rank, self.exchange, self._arena, groups, pairs,
                                    self._timeout, self._local, self._watch.inside)
        with self._all_together(Roll("the making of groups", [self._list])):
            mpi.communicators(self._world, groups, self._communicators)
        register = Register(self._arena, self.rank, groups, pairs, self._local, self._watch.inside)
        return mpi.MpiCollectives(self.rank, self._world, self._communicators, register)

    def _meet_neighbours(self) -> None:
        """Learn which ranks share this arena."""
        processes = meet_neighbours(self.exchange, self._arena)
        self._know(frozenset(processes))
        self._watch.processes = {r: process for r, process in processes.items() if r != self.rank.rank}
        watch_processes({process: r for r, process in self._watch.processes.items()}, self._arena)

    def _know(self, local: frozenset[int]) -> None:
        """From now on `local` are the ranks whose coming and going is seen here."""
        everybody = tuple(range(self.rank.world_size))
        self._local = local
        (found,) = open_lists(self._arena, self.rank.rank, [everybody], local)
        assert found is not None
        self._list = found

    @contextmanager
    def _all_together(self, roll: Roll) -> Iterator[None]:
        """A step that needs all ranks; the watching thread keeps its deadline."""
        self._list.arrive(0)
        self._watch.inside.add(roll)
        try:
            yield
        except mpi.Error as error:
            raise RankFailed(f"{self.rank}: MPI failed in {roll}: {error}") from error
        finally:
            self._watch.inside.discard(roll)
        self._list.leave()


def _check(rank: Rank, said: int, size: int) -> None:
    if (said, size) == (rank.rank, rank.world_size):
        return
    mark = next(iter(detect().marks), None)
    variables = ", ".join(f"{name}={value}" for name, value in mark.variables.items()) if mark else "nothing"
    raise UsageError(
        f"the environment ({variables}) says rank {rank.rank} of {rank.world_size}, and MPI itself says rank {said} of "
        f"{size}: mpirun belongs to another MPI than mpi4py. Start the ranks with the mpirun of mpi4py's MPI (`python "
        "-m mpi4py --mpi-lib-version` names it), or install mpi4py for this one.")


def _prefer_shared_memory() -> None:
    """Choose Open MPI's transports for one host, unless the user chose any; other MPIs do not read these."""
    chosen = [name for name in os.environ if name in (*_TRANSPORTS, "OMPI_MCA_mtl")]
    settings = os.path.expanduser("~/.openmpi/mca-params.conf")  # no user without a home has one
    if not chosen and not os.path.exists(settings):
        os.environ.update(_TRANSPORTS)
