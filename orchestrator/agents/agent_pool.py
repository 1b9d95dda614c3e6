"""Agent pool: the agents that have joined an orchestrator, and the replicas placed on them."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable

from ...comm.errors import UsageError
from ...comm.processes.event_loop import Action
from ...comm.processes.output import Log
from ...comm.request_memory.owned_arena import OwnedArena
from ...comm.serving.caller_slots import CallerSlots
from ...comm.text import counted
from ...comm.transfer.transfer_bars import TransferBars
from ..config.agent_settings import AgentSettings
from ..event_loop.loop import EventLoopThread
from ..replica.replica_spec import ReplicaSpec
from ..replica.supervised_ranks import NoPlace, SupervisedEvent
from .agent_listener import AgentListener
from .agent_shares import AgentShare, agent_shares, lack_of_room
from .agent_starter import AgentStarter
from .model_lists import ModelLists
from .model_sender import ModelSender
from .remote_agent import RemoteAgent
from .remote_control import RemoteControl
from .remote_orders import RemoteOrders
from .remote_part import RemotePart
from .remote_ranks import RemoteRanks

_LOOK = 0.2


class AgentPool:
    """See RankLauncher."""

    elsewhere = True

    def __init__(
        self,
        settings: AgentSettings,
        arena: OwnedArena,
        slots: CallerSlots,
        loop: EventLoopThread,
        starter: AgentStarter,
    ) -> None:
        """`arena` is for the tensors of requests, `slots` are those of callers."""
        self._starter = starter
        self._settings = settings
        self._arena = arena
        self._slots = slots
        self._loop = loop
        self._agents: list[RemoteAgent] = []
        self._numbers = itertools.count(1)
        self._waiting: list[Action] = []
        self._changed = threading.Condition()
        self._listener: AgentListener | None = None
        self._lists = ModelLists(loop)
        self._bars = TransferBars()

    def open(self) -> None:
        """Listen, and wait for the agents. Raises UsageError where they do not come in time."""
        settings, keys = self._starter.begin(self._settings, self._look_again)
        self._settings = settings
        self._listener = AgentListener(
            settings, keys, self._loop, self._arena, self.join, self.lose
        )
        until = time.monotonic() + settings.join_timeout
        with self._changed:
            while len(self._agents) < settings.agents:
                if time.monotonic() >= until:
                    raise UsageError(self._missing())
                self._changed.wait(_LOOK)

    def close(self) -> None:
        """Dismiss the agents; their ranks should have ended."""
        if self._listener is not None:
            self._listener.close()
        self._listener = None
        self._agents.clear()  # and with them the last descriptors
        self._starter.close()

    def launch(
        self,
        spec: ReplicaSpec,
        depth: int,
        notify: Callable[[SupervisedEvent], None],
        log: Log,
    ) -> RemoteRanks:
        """See RankLauncher.launch: one agent gets all ranks of the replica, where they fit."""
        number = next(self._numbers)
        parts = [(share.agent, self._part(number, spec, share)) for share in self._shares(spec)]

        def released() -> None:
            for agent, part in parts:
                self._release(agent, part)

        ranks = RemoteRanks(
            [part for _, part in parts],
            depth,
            next(agent.address for agent, part in parts if 0 in part.processes),
            self._slots,
            self._loop,
            notify,
            log,
            released,
        )
        for agent, part in parts:
            agent.take(part)
            self._starter.busy(agent.joined.name, ranks=True)
        ranks.prepare(depth)
        return ranks

    def await_place(self, action: Action) -> None:
        """See RankLauncher.await_place."""
        self._waiting.append(action)

    def _look_again(self) -> None:
        """Have replicas that wait for a place look for it again; from any thread."""
        self._loop.call_soon(self._tell_waiting)

    def join(self, agent: RemoteAgent) -> None:
        """Let ranks start at an agent that is connected now; in the loop's thread."""
        if agent.lost:  # before the loop came to its joining
            return
        with self._changed:
            self._agents.append(agent)
            self._changed.notify_all()
        self._tell_waiting()

    def lose(self, agent: RemoteAgent) -> None:
        """Forget an agent whose connection has ended."""
        with self._changed:
            if agent in self._agents:
                self._agents.remove(agent)
        self._starter.lost(agent.joined.name)

    def _shares(self, spec: ReplicaSpec) -> list[AgentShare]:
        """The agents of a replica, and what each gets. Raises NoPlace."""
        admits = self._starter.admits
        admitted = [one for one in self._agents if admits(spec, one.joined.name)]
        if spec.table is not None and self._starter.chooses_hosts:
            raise NoPlace(
                "rank_table: Ray chooses the hosts of ranks. Leave it out, or use launcher 'agents'"
            )
        opens, size = self._settings.opens, len(spec.ranks)
        shares = agent_shares(spec, admitted, opens)
        if not shares:
            raise self._starter.request(spec, lack_of_room(size, self._agents, opens))
        return shares

    def _part(self, number: int, spec: ReplicaSpec, share: AgentShare) -> RemotePart:
        agent, devices = share
        models = ModelSender(
            number,
            spec.settings.label,
            agent.joined.name,
            self._lists,
            self._bars,
            lambda message: agent.send(message, ()),
        )
        alone = agent.rank_connection() if len(spec.ranks) == 1 else None
        route = alone or agent
        orders = RemoteOrders(number, tuple(devices), self._arena, route, agent.shares_arena)
        specs = agent.specs(devices, len(spec.ranks), spec.settings.threads)
        control = RemoteControl(number, agent.weights, agent.send)
        return RemotePart(number, specs, agent, orders, control, models, self._loop, alone)

    def _release(self, agent: RemoteAgent, part: RemotePart) -> None:
        agent.release(part)
        self._starter.busy(agent.joined.name, ranks=False)
        self._tell_waiting()

    def _tell_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for action in waiting:
            self._loop.call_soon(action)

    def _missing(self) -> str:
        settings = self._settings
        there = ", ".join(map(str, self._agents)) or "none"
        keys = ""
        if self._listener is not None and self._listener.refused:
            times = counted(self._listener.refused, "connection")
            keys = f" {times} had other keys: the key file must be the same on all hosts."
        return (
            f"{settings.agents} agents were to join within {settings.join_timeout:g} s, and there "
            f"is {there}. Start `rankmesh agent --join {settings.listen}` on each host.{keys}"
        )
