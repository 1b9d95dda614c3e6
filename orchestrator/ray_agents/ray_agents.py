"""Ray agents: has Ray place each replica, and starts agents on the hosts that Ray gave it."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from ...comm.errors import RankmeshError
from ...comm.transport.curve import make_keys
from ...comm.transport.key_file import Keys, read_keys
from ..agents.agent_starter import AgentStarter
from ..config.agent_settings import AgentSettings
from ..replica.replica_spec import ReplicaSpec
from ..replica.supervised_ranks import NoPlace
from .ray_cluster import RayCluster
from .ray_placement import Invitation, PlacementState, RayPlacement

_LOG = logging.getLogger("rankmesh.orchestrator")
_AGAIN = 5.0
"""Seconds after which a placement that has failed is tried again."""

_IDLE = 30.0
"""Seconds after which a placement without ranks is given back."""

_LOOK = 1.0
_AT_A_TIME = 8


class RayAgents(AgentStarter):
    """See AgentStarter. Threads make all calls to Ray, so that none holds up the event loop."""

    chooses_hosts = True

    def __init__(self, address: str | None) -> None:
        """Connect to the cluster at `address`. Raises UsageError, RankmeshError."""
        self._cluster = RayCluster(address)
        self._changed: Callable[[], None] = lambda: None
        self._placements: dict[int, RayPlacement] = {}
        """By the identity of a replica's spec, which the placement keeps."""

        self._idle: dict[str, float] = {}
        """By the name of an agent: since when it has ranks no more."""

        self._busy: set[str] = set()

        self._callers = ThreadPoolExecutor(_AT_A_TIME, "rankmesh-ray")
        self._closed = threading.Event()
        self._sweeper = threading.Thread(target=self._sweep, name="rankmesh-ray-sweep", daemon=True)
        self._invitation: Invitation | None = None

    def begin(
        self, settings: AgentSettings, changed: Callable[[], None]
    ) -> tuple[AgentSettings, Keys]:
        """See AgentStarter.begin."""
        self._changed = changed
        listen = settings.listen or self._own_address()
        keys = read_keys(settings.key_file) if settings.key_file is not None else make_keys()
        settings = replace(settings, listen=listen, agents=0)
        self._invitation = Invitation(settings.address, keys, settings.host_timeout, settings.opens)
        self._sweeper.start()
        return settings, keys

    def admits(self, spec: ReplicaSpec, name: str) -> bool:
        """See AgentStarter.admits."""
        found = self._placements.get(id(spec))
        return found is not None and name in found.agents

    def request(self, spec: ReplicaSpec, room: str) -> NoPlace:
        """See AgentStarter.request."""
        found = self._placements.get(id(spec))
        if found is not None and found.state is PlacementState.FAILED:
            if time.monotonic() - found.decided < _AGAIN:
                return NoPlace(found.error)
            found = None
        if found is None:
            placement = self._placements[id(spec)] = RayPlacement(spec)
            self._call(self._make, placement)
        return NoPlace("Ray places the replica", coming=True)

    def lost(self, name: str) -> None:
        """See AgentStarter.lost."""
        for key, placement in list(self._placements.items()):
            if name in placement.agents:
                del self._placements[key]
                self._call(self._drop, placement, placement.agents[name])

    def busy(self, name: str, ranks: bool) -> None:
        """See AgentStarter.busy."""
        if ranks:
            self._busy.add(name)
        else:
            self._busy.discard(name)
            self._idle[name] = time.monotonic()

    def close(self) -> None:
        """See AgentStarter.close."""
        self._closed.set()
        if self._invitation is not None:
            self._sweeper.join()
        self._callers.shutdown()
        for placement in self._placements.values():
            _log_errors(placement.end, self._cluster)
        _log_errors(self._cluster.close)

    def _own_address(self) -> str:
        """This host's address in the cluster, with a port that is free now."""
        address = self._cluster.own_address
        with socket.create_server((address, 0)) as probe:
            return f"{address}:{probe.getsockname()[1]}"

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        if not self._closed.is_set():
            self._callers.submit(_log_errors, function, *arguments)

    def _make(self, placement: RayPlacement) -> None:
        assert self._invitation is not None
        placement.make(self._cluster, self._invitation)
        if placement.error:
            _LOG.warning("replica %d has no place: %s", placement.spec.index, placement.error)
        self._changed()

    def _drop(self, placement: RayPlacement, node: str) -> None:
        """Give a placement back whose agent on a host was lost."""
        if not self._cluster.reachable(node):
            self._cluster.suspect(node)
        placement.end(self._cluster)
        self._changed()

    def _sweep(self) -> None:
        """Have failed placements tried again, and give back those that no replica uses."""
        while not self._closed.wait(_LOOK):
            now = time.monotonic()
            for key, placement in list(self._placements.items()):
                if placement.state is PlacementState.FAILED and now - placement.decided >= _AGAIN:
                    self._changed()
                elif placement.state is PlacementState.PLACED and self._unused(placement, now):
                    del self._placements[key]
                    self._call(placement.end, self._cluster)

    def _unused(self, placement: RayPlacement, now: float) -> bool:
        """Whether its agents have no ranks; a model that is unloaded early never had any."""
        names = placement.agents
        since = max((self._idle.get(name, placement.decided) for name in names), default=now)
        return self._busy.isdisjoint(names) and now - since >= _IDLE


def _log_errors(function: Callable[..., None], *arguments: object) -> None:
    try:
        function(*arguments)
    except RankmeshError as error:
        _LOG.warning("%s", error)
