"""Simulated cluster: hosts that fail and come back as a seed decides, with an agent on each."""

from __future__ import annotations

from functools import partial

from rankmesh.comm.request_memory.owned_arena import OwnedArena
from rankmesh.comm.transport.messages import AgentJoin
from rankmesh.orchestrator.agents.agent_pool import AgentPool

from .agent import SimulatedAgent
from .chance import Chance, ClusterSettings
from .virtual_time import Action, VirtualLoop

_NAME = "host-"


class Cluster:
    """All hosts, and what happens to them."""

    def __init__(
        self,
        settings: ClusterSettings,
        loop: VirtualLoop,
        pool: AgentPool,
        arena: OwnedArena,
        seed: int,
    ) -> None:
        """`arena` has the tensors of the orchestrator, whose agents are those of `pool`."""
        self.settings = settings
        self.chance = Chance(settings, seed)
        self.losses = 0
        """How many hosts have failed so far."""

        self.longest_loss = 0
        """Nanoseconds of processor time that the orchestrator took at most when it gave up a
        host.
        """

        self._loop = loop
        self._pool = pool
        self._arena = arena
        self.agents: list[SimulatedAgent] = []
        for number in range(settings.hosts):
            self._join(f"{_NAME}{number}")

    def begin_failures(self) -> None:
        """From now on ranks and hosts fail."""
        settings = self.settings
        if settings.rank_life is not None:
            ranks = settings.hosts * settings.ranks_per_host
            self._again(settings.rank_life / ranks, lambda: self.lose_ranks(1))
        if settings.host_life is not None:
            self._again(settings.host_life / settings.hosts, lambda: self.lose_hosts(1))

    def lose_ranks(self, count: int) -> None:
        """Some ranks are killed."""
        incarnations = [one for agent in self.agents for one in agent.incarnations.values()]
        for at in self.chance.random.permutation(len(incarnations))[:count]:
            incarnation = incarnations[at]
            incarnation.lose_rank(int(self.chance.random.choice(incarnation.ranks)))

    def lose_hosts(self, count: int) -> None:
        """Some hosts fail at the same moment; each is back after its repair."""
        chosen = self.chance.random.permutation(len(self.agents))[:count]
        for agent in [self.agents[at] for at in chosen]:
            self.losses += 1
            self.agents.remove(agent)
            agent.cut_off()
            self._loop.simulate(self.settings.notice, partial(self._give_up, agent))
            repair = self.chance.drawn(self.settings.repair)
            self._loop.simulate(repair, partial(self._join, agent.joined.host))

    def send_away(self, agent: SimulatedAgent) -> None:
        """The orchestrator ends the connection of an agent, which joins again."""
        if agent in self.agents:
            self.agents.remove(agent)
            agent.cut_off()
            self._loop.call_soon(agent.give_up)
            self._loop.simulate(self.settings.repair, partial(self._join, agent.joined.host))

    def _again(self, mean: float, action: Action) -> None:
        """Call `action` at random moments."""

        def act() -> None:
            action()
            self._loop.simulate(self.chance.drawn(mean), act)

        self._loop.simulate(self.chance.drawn(mean), act)

    def _give_up(self, agent: SimulatedAgent) -> None:
        own = self._loop.meter.own
        self._loop.meter.inside(agent.give_up)
        self.longest_loss = max(self.longest_loss, self._loop.meter.own - own)

    def _join(self, host: str) -> None:
        ranks = self.settings.ranks_per_host
        joined = AgentJoin(host, host, 1, "", ranks, list(range(ranks)))
        number = int(host.removeprefix(_NAME))
        address = f"10.{number >> 8}.{number & 255}.1"
        agent = SimulatedAgent(
            joined, self._loop, self._pool.lose, self.chance, self._arena, address
        )
        agent.leave = partial(self.send_away, agent)
        self.agents.append(agent)
        self._loop.meter.inside(lambda: self._pool.join(agent))
