"""Where ranks that mpirun started meet: through MPI; those of one host also share an arena.

Imported under mpirun only, as MPI alone leaves a segment behind.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from .collectives.attendance import open_lists
from .collectives.base import Collectives
from .collectives.choose import MPI
from .collectives.join import join_collectives
from .collectives.register import Register, Roll
from .errors import RankFailed, UsageError
from .hub import socket_path
from .local_meeting import join_locally, watch_processes
from .progress import Progress, Stage
from .rank import Rank
from .rendezvous import Groups, Pairs
from .watch import Watch

try:
    from .collectives import mpi
except (ImportError, RuntimeError) as error:  # RuntimeError: mpi4py finds no MPI library
    raise UsageError(f"mpirun started this process, and mpi4py cannot be imported ({error}): install it with `pip "
                     f"install rankmesh[mpi]`, or start the ranks with `rankmesh launch`.") from error

_TRANSPORTS = {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,sm"}
"""What Open MPI needs on one host; left to itself it tries all it has, which takes a second."""

_LAUNCHERS = ("hydra_pmi_proxy", "pmi_proxy", "slurmstepd", "mpiexec", "mpirun")


class _Here(msgspec.Struct, frozen=True):
    """What a rank tells the others first: the file that is its arena, and its process."""

    arena: tuple[str, int]
    process: int


class MpiMeeting:
    """One rank's way to the others. From here on the job ends when one of its ranks fails: see `Watch`.

    An exception that leaves the program ends the job with status 1 (a RankmeshError: with its exit code). `timeout`
    is how many seconds ranks wait for each other, 0 for ever. Raises UsageError where MPI contradicts `rank`.
    """

    implementation = MPI
    """The name of the collectives to join; set it on all ranks alike (see `choose_collectives`)."""

    def __init__(self, rank: Rank, timeout: float) -> None:
        self.rank, self._timeout = rank, timeout
        key = os.environ.get("PMIX_NAMESPACE") or _launching_process()
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
        with self._all_together("the start of MPI"):
            self._world = mpi.start()
        _check(rank, self._world.rank, self._world.size)
        self._meet_neighbours()
        Path(socket_path(key)).unlink(missing_ok=True)

    def enter(self, stage: Stage) -> None:
        """See Meeting.enter."""
        self._progress.stage = stage

    def exchange(self, payload: bytes) -> list[bytes]:
        """See Meeting.exchange; a rank that does not come ends the job."""
        with self._all_together("an exchange of all ranks"):
            return mpi.exchange(self._world, payload)

    def collectives(self, groups: Groups, pairs: Pairs) -> Collectives:
        """See Meeting.collectives."""
        if self.implementation != MPI:
            return join_collectives(self.implementation, self.rank, self.exchange, self._arena, groups, pairs,
                                    self._timeout, self._local, self._watch.inside)
        with self._all_together("the making of groups"):
            mpi.communicators(self._world, groups, self._communicators)
        register = Register(self._arena, self.rank, groups, pairs, self._local, self._watch.inside)
        return mpi.MpiCollectives(self.rank, self._world, self._communicators, register)

    def _meet_neighbours(self) -> None:
        """Learn which ranks share this arena."""
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        mine = _Here((boot, os.fstat(self._arena.fd).st_ino), os.getpid())
        payloads = self.exchange(msgspec.msgpack.encode(mine))
        everybody = [msgspec.msgpack.decode(payload, type=_Here) for payload in payloads]
        self._know(frozenset(r for r, here in enumerate(everybody) if here.arena == mine.arena))
        self._watch.processes = {
            r: everybody[r].process for r in self._local if r != self.rank.rank}
        watch_processes({process: r for r, process in self._watch.processes.items()}, self._arena)

    def _know(self, local: frozenset[int]) -> None:
        """From now on `local` are the ranks whose coming and going is seen here."""
        everybody = tuple(range(self.rank.world_size))
        self._local = local
        self._list = open_lists(self._arena, self.rank.rank, [everybody], local)[0]

    @contextmanager
    def _all_together(self, what: str) -> Iterator[None]:
        """A step that needs all ranks; the watching thread keeps its deadline."""
        assert self._list is not None
        roll = Roll(what, [self._list])
        self._list.arrive(0)
        self._watch.inside.add(roll)
        try:
            yield
        except mpi.Error as error:
            raise RankFailed(f"{self.rank}: MPI failed in {what}: {error}") from error
        finally:
            self._watch.inside.discard(roll)
        self._list.leave()


def _check(rank: Rank, said: int, size: int) -> None:
    if (said, size) != (rank.rank, rank.world_size):
        raise UsageError(
            f"the environment says rank {rank.rank} of {rank.world_size}, and MPI itself says rank {said} of {size}: "
            "mpirun belongs to another MPI than mpi4py does. Start the ranks with the mpirun of mpi4py's MPI "
            "(`python -m mpi4py --mpi-lib-version`), or install mpi4py for this one.")


def _prefer_shared_memory() -> None:
    """Choose Open MPI's transports for one host, unless the user chose any; other MPIs do not read these."""
    chosen = [name for name in os.environ if name in (*_TRANSPORTS, "OMPI_MCA_mtl")]
    settings = Path.home() / ".openmpi" / "mca-params.conf"
    if not chosen and not settings.exists():
        os.environ.update(_TRANSPORTS)


def _launching_process() -> str:
    """The process that started the ranks of this host, where its name for the job is not told."""
    process, parent = os.getppid(), os.getppid()
    while process > 1:
        text = Path(f"/proc/{process}/stat").read_text()
        name, _, rest = text.partition("(")[2].rpartition(")")
        fields = rest.split()
        if name in _LAUNCHERS or process == parent:
            found = f"{process} {fields[19]}"
        if name in _LAUNCHERS:
            return found
        process = int(fields[1])
    return found
