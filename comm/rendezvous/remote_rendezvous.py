"""Rendezvous of several hosts without MPI: the ranks connect to rank 0 with the keys of a key file.

Over these connections the ranks exchange payloads and learn of failures. Tensors go by
torch.distributed, whose connections are neither encrypted nor authenticated.
"""

from __future__ import annotations

import atexit
import errno
import os
import time
from functools import partial
from pathlib import Path

from ..collectives.backend import Collectives
from ..collectives.registry import HIERARCHICAL, BackendChoice
from ..errors import RankFailed, RankmeshError, UsageError
from ..job.rank import Rank
from ..job_memory.arena import Arena, Cause
from ..job_memory.host_peers import meet_host_peers
from ..transport.channel import Channel
from ..transport.curve_client import CurveClient
from ..transport.curve_server import CurveServer
from ..transport.key_file import Keys
from ..transport.listener import first_words, occupied, process_at, speaks_zeromq
from ..transport.local_socket import socket_path
from ..transport.messages import Failed
from .address import RendezvousAddress
from .between_hosts import join_hosts, require_torch
from .failure_monitor import RemoteFailureMonitor
from .local_rendezvous import join_locally
from .monitored_rendezvous import MonitoredRendezvous
from .remote_link import RemoteLink
from .remote_rendezvous_server import RemoteRendezvousServer
from .rendezvous import Groups, Pairs

_LEAVING, _RETRY = 1.0, 0.05
"""Seconds for which a program that ends may still have the port, and between tries."""


def meet_remotely(
    rank: Rank,
    address: RendezvousAddress,
    keys: Keys,
    timeout: float,
    inherited: tuple[Channel, Arena] | None = None,
) -> RemoteRendezvous:
    """Meet the other ranks of a job on several hosts; rank 0 listens at `address`.

    `inherited` are the channel to this rank's supervisor and its arena, if it has one. Returns when
    all ranks are there. Raises UsageError where hosts or jobs do not fit together. Raises
    RankFailed where a rank does not come within `timeout` seconds (0: no limit) of the first.
    """
    require_torch()
    ip = address.ip()
    key = f"{address.job} at {address}"
    channel, arena = inherited or join_locally(rank, key, timeout)[:2]
    where = f"{rank.host}, process {os.getpid()}"
    server = _serve(rank, address, ip, keys, where, timeout) if rank.rank == 0 else None
    link = RemoteLink(CurveClient(ip, address.port, keys), rank, address, partial(_abort, arena))
    supervisor = channel if inherited else None
    leftover = Path(socket_path(key))
    monitor = RemoteFailureMonitor(rank, arena, timeout, leftover, link, supervisor)
    rendezvous = RemoteRendezvous(rank, ip, timeout, arena, link, monitor, server)
    try:
        link.join(address.job, where, timeout)
        rendezvous.watch(meet_host_peers(link.exchange, arena))
    except RankmeshError:
        rendezvous.close()
        raise
    if not inherited:
        # Open until the exit: the other ranks take its end for the end of this rank.
        atexit.register(channel.close)
    return rendezvous


class RemoteRendezvous(MonitoredRendezvous):
    """The rendezvous of one rank; a failure of any rank ends the job on all hosts.

    See RemoteFailureMonitor. `ip` is rank 0's address, `server` is there on rank 0 alone.
    """

    choice = BackendChoice(HIERARCHICAL, "the ranks are on several hosts")
    """See Rendezvous.choice."""

    _monitor: RemoteFailureMonitor

    def __init__(
        self,
        rank: Rank,
        ip: str,
        timeout: float,
        arena: Arena,
        link: RemoteLink,
        monitor: RemoteFailureMonitor,
        server: RemoteRendezvousServer | None,
    ) -> None:
        super().__init__(rank, timeout, arena, monitor)
        self._ip = ip
        self._link = link
        self._server = server
        self._process = os.getpid()

    def watch(self, processes: dict[int, int]) -> None:
        """Begin to watch for failures; `processes` are those of this host's ranks, by rank."""
        self._watch(processes)
        self._monitor.start()
        atexit.register(self.leave)  # runs before what the monitor does at exit

    def exchange(self, payload: bytes) -> list[bytes]:
        """See Rendezvous.exchange; rank 0 keeps the deadline and names late ranks."""
        return self._link.exchange(payload)

    def collectives(self, groups: Groups, pairs: Pairs) -> Collectives:
        """See Rendezvous.collectives."""
        try:
            return join_hosts(
                self._membership(groups, pairs, self._local, self._ip), self.choice.name
            )
        except RankFailed as error:
            if self._link.failure:
                raise RankFailed(self._link.failure.text) from error
            raise

    def fail(self, error: Exception) -> None:
        """Tell all ranks that this one ends with `error`, if the job has not failed before."""
        self._monitor.report_failure()
        name, text = type(error).__name__, str(error)
        if not isinstance(error, RankmeshError):
            name, text = RankmeshError.__name__, f"{name}: {text}"
        if f"rank {self.rank.rank} " not in text:
            text = f"{self.rank}: {text}"
        self._link.fail(Failed(name, text, self.rank.rank))

    def leave(self) -> None:
        """End this rank's part: in order, or after a failure of which the others are told."""
        if os.getpid() != self._process:
            return  # the end of a forked child is not the end of the rank
        self._monitor.report_failure()
        self._progress.leave()
        self._link.leave()
        self.close()

    def close(self) -> None:
        """End the connections."""
        self._link.close()
        if self._server is not None:
            self._server.close()


def _abort(arena: Arena, failed: Failed) -> None:
    """End the collectives of this host's ranks because of a failure elsewhere."""
    arena.abort(failed.rank, Cause.DIED, failed.text)


def _serve(
    rank: Rank, address: RendezvousAddress, ip: str, keys: Keys, where: str, timeout: float
) -> RemoteRendezvousServer | None:
    """Serve the job, once a program that ends has released the port.

    None where another job has the port: that job refuses `RemoteLink.join`.
    """
    until = time.monotonic() + _LEAVING
    while True:
        try:
            listener = CurveServer(ip, address.port, keys, rank.world_size)
        except OSError as error:
            if _taken_by_job(rank, address, ip, error, time.monotonic() > until):
                return None
            time.sleep(_RETRY)
        else:
            server = RemoteRendezvousServer(listener, rank, address, where, timeout)
            server.start()
            return server


def _taken_by_job(
    rank: Rank, address: RendezvousAddress, ip: str, error: OSError, late: bool
) -> bool:
    """Whether a job, which says so, has the port.

    UsageError where the port cannot be had: at once if another program listens there.
    """
    if error.errno != errno.EADDRINUSE:
        raise UsageError(
            f"{rank}: cannot listen at {address} ({ip}): {error.strerror}. It must be an address "
            "of rank 0's host: correct host_ip in the rank table, or RANKMESH_ADDRESS on all hosts."
        ) from error
    said = first_words(ip, address.port)
    if not speaks_zeromq(said) and (said is not None or late):
        occupant = occupied(address.host, address.port, said, process_at(address.port))
        raise UsageError(f"{rank}: {occupant}") from error
    return speaks_zeromq(said)
