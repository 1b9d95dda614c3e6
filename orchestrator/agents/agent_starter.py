"""Agent starter: has an engine start agents on its hosts, for the replicas that need them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from ...comm.transport.key_file import Keys
from ..config.agent_settings import AgentSettings
from ..replica.replica_spec import ReplicaSpec


class AgentStarter(Protocol):
    """Starts agents for the replicas that need them. No call but `begin` and `close` waits."""

    def begin(self, settings: AgentSettings) -> tuple[AgentSettings, Keys]:
        """The settings with the address to listen at, and the keys that the agents will have."""

    def names(self, spec: ReplicaSpec) -> Collection[str]:
        """The names of the agents that were started for a replica."""

    def request(self, spec: ReplicaSpec) -> str:
        """Start agents with room for a replica; why there can be none now, empty if they come."""

    def busy(self, name: str, ranks: bool) -> None:
        """Note that an agent has ranks, or that it has none any more."""

    def lost(self, name: str) -> None:
        """Note that an agent is gone."""

    def close(self) -> None:
        """End all agents."""
