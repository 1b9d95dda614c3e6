"""Rank launchers: choose what starts the ranks of an orchestrator, by its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..comm.request_memory.owned_arena import OwnedArena
from ..comm.serving.caller_slots import CallerSlots
from .config.agent_settings import RAY, AgentSettings
from .event_loop.loop import EventLoopThread
from .replica.local_ranks import LocalRankLauncher
from .replica.supervised_ranks import RankLauncher

if TYPE_CHECKING:
    from .agents.agent_starter import AgentStarter


def launcher_of(
    agents: AgentSettings | None, arena: OwnedArena, slots: CallerSlots, loop: EventLoopThread
) -> RankLauncher:
    """Agents, or with None this process; `arena` is for the tensors of requests."""
    if agents is None:
        return LocalRankLauncher(slots, loop)
    from .agents.agent_pool import AgentPool  # loads zmq, which ranks of one host do without

    return AgentPool(agents, arena, slots, loop, _starter_of(agents))


def _starter_of(agents: AgentSettings) -> AgentStarter:
    if agents.engine == RAY:
        from .ray_agents.ray_agents import RayAgents

        return RayAgents(agents.ray_address)
    from .agents.user_agents import UserAgents

    return UserAgents()
