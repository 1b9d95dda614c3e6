"""Agent starter: has agents started on hosts, for the replicas that need them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ...comm.transport.key_file import Keys
from ..config.agent_settings import AgentSettings
from ..replica.replica_spec import ReplicaSpec
from ..replica.supervised_ranks import NoPlace


class AgentStarter(Protocol):
    """Users start agents, or an engine does. No call but `begin` and `close` waits."""

    chooses_hosts: bool
    """Whether it chooses the hosts of ranks, which a rank table cannot then."""

    def begin(
        self, settings: AgentSettings, changed: Callable[[], None]
    ) -> tuple[AgentSettings, Keys]:
        """The settings with the address to listen at, and the keys of the agents.

        `changed` is called, in any thread, when a replica should look for a place again. Raises
        UsageError, RankmeshError.
        """

    def admits(self, spec: ReplicaSpec, name: str) -> bool:
        """Whether the agent `name` may have a replica."""

    def request(self, spec: ReplicaSpec, room: str) -> NoPlace:
        """Start agents for a replica if that can be; why it has no place now.

        `room` says which agents are there.
        """

    def busy(self, name: str, ranks: bool) -> None:
        """Note that an agent has ranks, or that it has none any more."""

    def lost(self, name: str) -> None:
        """Note that an agent is gone."""

    def close(self) -> None:
        """End all agents that were started."""
