"""User agents: those that users start themselves, each for any replica."""

from __future__ import annotations

import os
from collections.abc import Callable

from ...comm.transport.key_file import Keys, keys_from_environment, read_keys
from ..config.agent_settings import AgentSettings
from ..replica.replica_spec import ReplicaSpec
from ..replica.supervised_ranks import NoPlace
from .agent_starter import AgentStarter


class UserAgents(AgentStarter):
    """See AgentStarter: nothing is started here."""

    chooses_hosts = False

    def begin(
        self, settings: AgentSettings, changed: Callable[[], None]
    ) -> tuple[AgentSettings, Keys]:
        """See AgentStarter.begin."""
        path = settings.key_file
        keys = read_keys(path) if path is not None else keys_from_environment(os.environ)
        return settings, keys

    def admits(self, spec: ReplicaSpec, name: str) -> bool:
        """See AgentStarter.admits."""
        return True

    def request(self, spec: ReplicaSpec, room: str) -> NoPlace:
        """See AgentStarter.request: more agents come only if users start them."""
        return NoPlace(room)

    def busy(self, name: str, ranks: bool) -> None:
        """See AgentStarter.busy."""

    def lost(self, name: str) -> None:
        """See AgentStarter.lost."""

    def close(self) -> None:
        """See AgentStarter.close: agents end as the listener dismisses them."""
