"""Where the ranks of several hosts meet without MPI: rank 0 listens, the others connect, with the keys of a key file.

Over these connections they exchange what they must agree on, and learn of failures. Tensors go by torch.distributed,
whose connections are neither encrypted nor authenticated.
"""

from __future__ import annotations

import atexit
import errno
import importlib.util
import os
import socket
import time
from pathlib import Path

from .arena import Arena, Cause
from .channel import Channel
from .collectives.base import Collectives
from .collectives.choose import GLOO
from .collectives.join import join_collectives
from .curve_client import Client
from .curve_server import Server
from .errors import RankFailed, RankmeshError, UsageError
from .key_file import Keys
from .listener import first_words, occupied, process_at, speaks_zeromq
from .local_meeting import join_locally, watch_processes
from .local_socket import socket_path
from .messages import Failed
from .neighbours import meet_neighbours
from .place import Place
from .progress import Progress, Stage
from .rank import Rank
from .remote_hub import RemoteHub
from .remote_link import Link
from .remote_watch import RemoteWatch
from .rendezvous import Groups, Pairs

_LEAVING, _RETRY = 1.0, 0.05
"""Seconds for which a program that ends may still have the port, and between tries."""

_INTERFACE, _LOGGED = "GLOO_SOCKET_IFNAME", "TORCH_CPP_LOG_LEVEL"


def meet_remotely(rank: Rank, place: Place, keys: Keys, timeout: float,
                  inherited: tuple[Channel, Arena] | None = None) -> RemoteMeeting:
    """Meet the other ranks of a job on several hosts; rank 0 listens at `place`.

    `inherited` are the way to this rank's supervisor and its arena, if it has one. Returns when all ranks are there.
    Raises UsageError where hosts or jobs do not fit together, RankFailed where somebody does not come within `timeout`
    seconds (0: wait for ever) of the first.
    """
    if importlib.util.find_spec("torch") is None:
        raise UsageError("ranks on several hosts exchange tensors by torch.distributed, and torch is not installed: "
                         "`pip install 'rankmesh[torch]'` on every host.")
    address = place.address()
    key = f"{place.job} at {place}"
    channel, arena = inherited or join_locally(rank, key, timeout)
    meeting = RemoteMeeting(rank, place, address, timeout, arena)
    meeting.join(keys, channel if inherited else None, Path(socket_path(key)))
    if not inherited:
        atexit.register(channel.close)  # until then it stays open: its end is taken for this rank's
    return meeting


class RemoteMeeting:
    """One rank's way to the others. The job ends on all hosts when one of its ranks fails: see `RemoteWatch`."""

    implementation = GLOO
    """The name of the collectives to join; set it on all ranks alike (see `choose_collectives`)."""

    def __init__(self, rank: Rank, place: Place, address: str, timeout: float, arena: Arena) -> None:
        self.rank = rank
        self._place, self._address, self._timeout, self._arena = place, address, timeout, arena
        self._progress = Progress(arena, rank.rank)
        self._hub: RemoteHub | None = None
        self._process = os.getpid()

    def join(self, keys: Keys, channel: Channel | None, leftover: Path) -> None:
        """Connect, wait for all, and begin to watch. `channel` leads to a supervisor, if there is one."""
        where = f"{self.rank.host}, process {os.getpid()}"
        self._hub = self._serve(keys, where) if self.rank.rank == 0 else None
        self._link = Link(Client(self._address, self._place.port, keys), self.rank, self._place, self._note)
        self._watch = RemoteWatch(self.rank, self._arena, self._timeout, leftover, self._link, channel)
        try:
            self._link.join(self._place.job, where, self._timeout)
            processes = meet_neighbours(self.exchange, self._arena)
        except RankmeshError:
            self.close()
            raise
        self._local = frozenset(processes)
        self._watch.processes = {r: process for r, process in processes.items() if r != self.rank.rank}
        watch_processes({process: r for r, process in self._watch.processes.items()}, self._arena)
        self._watch.start()
        atexit.register(self.leave)  # runs before what the watch does at exit

    def enter(self, stage: Stage) -> None:
        """See Meeting.enter."""
        self._progress.stage = stage

    def exchange(self, payload: bytes) -> list[bytes]:
        """See Meeting.exchange; rank 0 keeps the deadline and names who is late."""
        return self._link.exchange(payload)

    def collectives(self, groups: Groups, pairs: Pairs) -> Collectives:
        """See Meeting.collectives."""
        os.environ.setdefault(_INTERFACE, _interface(self._address, self._place.port))
        os.environ.setdefault(_LOGGED, "ERROR")  # it warns of each address that has no name
        try:
            return join_collectives(self.implementation, self.rank, self.exchange, self._arena, groups, pairs,
                                    self._timeout, self._local, self._watch.inside, self._address)
        except RankmeshError:
            raise
        except RuntimeError as error:
            text = self._link.failure.text if self._link.failure else (
                f"{self.rank}: torch.distributed ({self.implementation}) could not connect the ranks: {error}. It "
                f"needs TCP between the hosts, on any port, by the interface {os.environ[_INTERFACE]} ({_INTERFACE}).")
            raise RankFailed(text) from error

    def fail(self, error: Exception) -> None:
        """Tell all ranks that this one ends with `error`, if the job has not failed before."""
        self._watch.say_why()
        name, text = type(error).__name__, str(error)
        if not isinstance(error, RankmeshError):
            name, text = RankmeshError.__name__, f"{name}: {text}"
        if f"rank {self.rank.rank} " not in text:
            text = f"{self.rank}: {text}"
        self._link.fail(Failed(name, text, self.rank.rank))

    def leave(self) -> None:
        """End this rank's part: in order, or after a failure that the others are told."""
        if os.getpid() != self._process:
            return  # a fork's exit is not the rank's
        self._watch.say_why()
        self._progress.leave()
        self._link.leave()
        self.close()

    def close(self) -> None:
        """End the connections."""
        self._link.close()
        if self._hub is not None:
            self._hub.close()

    def _note(self, failed: Failed) -> None:
        """A failure elsewhere ends what this host's ranks do together."""
        self._arena.abort(failed.rank, Cause.DIED, failed.text)

    def _serve(self, keys: Keys, where: str) -> RemoteHub | None:
        """Serve; where another job has the port, it says in `join` which one."""
        server = self._listen(keys)
        if server is None:
            return None
        hub = RemoteHub(server, self.rank, self._place, where, self._timeout)
        hub.start()
        return hub

    def _listen(self, keys: Keys) -> Server | None:
        """Listen, once a program that is about to end has let go of the port; None where another job may have it."""
        until = time.monotonic() + _LEAVING
        while True:
            try:
                return Server(self._address, self._place.port, keys, self.rank.world_size)
            except OSError as error:
                if self._another_job(error, time.monotonic() > until):
                    return None
            time.sleep(_RETRY)

    def _another_job(self, error: OSError, late: bool) -> bool:
        """Whether a job that says so has the port; UsageError where that cannot be had, at once if anyone listens."""
        if error.errno != errno.EADDRINUSE:
            raise UsageError(f"{self.rank}: cannot listen at {self._place} ({self._address}): {error.strerror}. It "
                             f"must be an address of rank 0's host: correct host_ip in the rank table, or "
                             f"RANKMESH_ADDRESS on all hosts.") from error
        port = self._place.port
        said = first_words(self._address, port)
        if not speaks_zeromq(said) and (said is not None or late):
            raise UsageError(f"{self.rank}: {occupied(self._place.host, port, said, process_at(port))}") from error
        return speaks_zeromq(said)


def _interface(address: str, port: int) -> str:
    """The network interface that leads to rank 0; nothing is sent."""
    import psutil

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((address, port))
        mine = probe.getsockname()[0]
    found = [name for name, listed in psutil.net_if_addrs().items() if mine in (one.address for one in listed)]
    return found[0]
