"""Ray cluster: its hosts, and placement groups on them; every call to Ray has a deadline."""

from __future__ import annotations

import ctypes
import logging
import signal
import socket
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple

import msgspec

from ...comm.errors import RankmeshError, UsageError
from .ray_calls import ray_module, within

_CONNECT = 30.0
_CALL = 5.0
"""Seconds for a call that Ray answers from its head's memory."""

_REACH = 1.0
_SUSPECT = 60.0
"""Seconds for which a host gets nothing new; about what Ray takes to notice that it is gone."""

_NODE = "ray.io/node-id"
_SIGACTION = 256
"""Bytes for a struct sigaction, which has 152 with glibc."""

_libc = ctypes.CDLL(None)
_LOG = logging.getLogger("rankmesh.orchestrator")


class ClusterHost(NamedTuple):
    """A host's address, all its resources, as Ray names them, and those that are free."""

    address: str
    resources: dict[str, float]
    free: dict[str, float]


class RayCluster:
    """A connection of this program to a cluster that runs already."""

    def __init__(self, address: str | None = None) -> None:
        """Connect to the cluster at `address`, by default the one of this host or job; one that the
        program is connected to is used as it is. Raises UsageError, RankmeshError.
        """
        self._ray = ray_module()
        self._suspects: dict[str, float] = {}
        self._connected = not self._ray.is_initialized()
        if self._connected:
            within(_CONNECT, "answer", partial(self._connect, address or "auto"))

    @property
    def own_address(self) -> str:
        """The address of this host, as the other hosts know it."""
        return str(within(_CALL, "tell this host's address", self._ray.util.get_node_ip_address))

    def suspect(self, node: str) -> None:
        """Place nothing new on a host for a while."""
        self._suspects[node] = time.monotonic() + _SUSPECT

    def reachable(self, node: str) -> bool:
        """Whether a host answers at its port of Ray, which notices late that one is gone."""
        found = within(_CALL, "list its hosts", self._ray.nodes)
        for one in found:
            if one["NodeID"] == node:
                where = one["NodeManagerAddress"], one["NodeManagerPort"]
                with suppress(OSError), socket.create_connection(where, _REACH):
                    return True
        return False

    def hosts(self) -> list[ClusterHost]:
        """The hosts that get something new."""
        suspects = self._living_suspects()
        nodes = within(_CALL, "list its hosts", self._ray.nodes)
        free = within(_CALL, "tell what is free", free_resources)
        return [
            ClusterHost(
                one["NodeManagerAddress"],
                one["Resources"],
                free.get(one["NodeID"], one["Resources"]),
            )
            for one in nodes
            if one["Alive"] and one["NodeID"] not in suspects
        ]

    def place(self, bundles: Sequence[dict[str, float]], name: str, seconds: float) -> Any:
        """A placement group of bundles, each of which is reserved on one host.

        RankmeshError where there is no room for them within `seconds`.
        """
        create = partial(self._create, bundles, name)
        group = within(_CALL, f"take the placement group {name}", create)
        if within(seconds + _CALL, "place ranks", partial(group.wait, seconds)):
            return group
        self.remove(group)
        raise RankmeshError(
            f"no host of the Ray cluster has room for {' or '.join(map(_told, bundles))} after "
            f"{seconds:g} s; all ranks of a replica need one, or several that trusted_networks "
            f"covers: there are {self._offered()}. Add a host, or ask for fewer ranks or threads."
        )

    def nodes_of(self, group: Any) -> list[str]:
        """The hosts of a placement group, bundle after bundle."""
        table = within(
            _CALL, "tell where it placed", partial(self._ray.util.placement_group_table, group)
        )
        return [str(node) for _, node in sorted(table["bundles_to_node_id"].items())]

    def remove(self, group: Any) -> None:
        """Give a placement group back; actors in it are ended."""
        within(
            _CALL,
            "remove a placement group",
            partial(self._ray.util.remove_placement_group, group),
        )

    def close(self) -> None:
        """End the connection, if this object made it."""
        if self._connected:
            within(_CONNECT, "disconnect", self._ray.shutdown)

    def _connect(self, address: str) -> None:
        try:
            with _handling_kept(signal.SIGTERM):
                self._ray.init(
                    address=address,
                    namespace="rankmesh",
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                )
        except ConnectionError as error:
            raise UsageError(
                f"no Ray cluster answers at {address!r} ({error}): start one with `ray start "
                "--head` and `ray start --address=HEAD:6379` on other hosts, or give its address."
            ) from error

    def _create(self, bundles: Sequence[dict[str, float]], name: str) -> Any:
        suspects = self._living_suspects()
        selectors = {}
        if suspects:  # which only newer versions of Ray can leave out
            without = {_NODE: f"!in({','.join(sorted(suspects))})"}
            selectors = {"bundle_label_selector": [without] * len(bundles)}
        strategy = "STRICT_PACK" if len(bundles) == 1 else "PACK"
        return self._ray.util.placement_group(list(bundles), strategy, name, **selectors)

    def _living_suspects(self) -> Collection[str]:
        now = time.monotonic()
        return {node for node, until in list(self._suspects.items()) if until > now}

    def _offered(self) -> str:
        hosts = [
            f"{one.address} with {_told(one.resources)}, of which {_told(one.free)} are free"
            for one in self.hosts()
        ]
        return "; ".join(hosts) or "none"


def free_resources() -> dict[str, dict[str, float]]:
    """The free resources of each host; of none where this version of Ray does not tell.

    Ray has no public call for it: this one may go, or change what it takes and gives.
    """
    try:
        from ray._private.state import available_resources_per_node

        return msgspec.convert(available_resources_per_node(), dict[str, dict[str, float]])
    except (ImportError, AttributeError, TypeError, msgspec.ValidationError) as error:
        _LOG.info("this version of Ray does not tell what is free on its hosts: %s", error)
        return {}


@contextmanager
def _handling_kept(number: signal.Signals) -> Iterator[None]:
    """Keep what the process does at a signal: Ray's start has it end there, and drain no more.

    By libc, as Python sets handlers in the main thread only; struct sigaction stays opaque.
    """
    kept = ctypes.create_string_buffer(_SIGACTION)
    _libc.sigaction(number, None, kept)
    try:
        yield
    finally:
        _libc.sigaction(number, kept, None)


def _told(resources: dict[str, float]) -> str:
    """The cores and GPUs among resources, as errors name them."""
    return f"{resources.get('CPU', 0):g} CPU and {resources.get('GPU', 0):g} GPU"
