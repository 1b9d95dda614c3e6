"""Agent shares: what a rank table gives to agents, and what it cannot give."""

from __future__ import annotations

import pytest

from rankmesh.comm.job.placement import RankSpec
from rankmesh.comm.job.rank import Rank
from rankmesh.comm.serving.orders import ServeJob
from rankmesh.comm.transport.messages import AgentJoin
from rankmesh.orchestrator.agents.agent_shares import agent_shares, lack_of_room
from rankmesh.orchestrator.agents.remote_agent import RemoteAgent
from rankmesh.orchestrator.config.settings import ModelSettings
from rankmesh.orchestrator.event_loop.loop import EventLoopThread
from rankmesh.orchestrator.replica.replica_spec import ReplicaSpec
from rankmesh.orchestrator.replica.supervised_ranks import NoPlace
from rankmesh.rank_tables.server import Device, Server
from rankmesh.rank_tables.table import RankTable

pytestmark = pytest.mark.pure
TABLE = RankTable(
    (
        Server("10.0.0.1", (Device(0, 3), Device(1, 4))),
        Server("b", (Device(2, 5), Device(3, 6), Device(4, 7)), "10.0.0.2"),
    )
)
JOB = ServeJob("m", 1, "cpu", None, 1, False, False, -1, -1, -1, [], 0, [])


@pytest.fixture
def agents() -> list[RemoteAgent]:
    loop = EventLoopThread()
    return [
        RemoteAgent(AgentJoin(name, name, 1, "", 2, [0, 1]), loop, print, address)
        for name, address in (("b", "10.0.0.9"), ("a", "10.0.0.1"))
    ]


def replica(index: int, size: int) -> ReplicaSpec:
    ranks = tuple(RankSpec(Rank(rank, size, rank, size, "", 0), (), 1) for rank in range(size))
    return ReplicaSpec(index, ranks, JOB, ModelSettings("m"), 60.0, TABLE)


def test_ranks_go_to_the_agents_of_their_servers_with_their_devices(
    agents: list[RemoteAgent],
) -> None:
    b, a = agents
    shares = agent_shares(replica(0, 4), agents, lambda address: True)
    given = [(one.agent, dict(one.devices)) for one in shares]
    assert given == [(a, {0: 3, 1: 4}), (b, {2: 5, 3: 6})]
    (last,) = agent_shares(replica(4, 1), agents, lambda address: False)
    assert (last.agent, dict(last.devices)) == (b, {0: 7})


@pytest.mark.parametrize(
    ("size", "opened", "said"),
    [
        (5, True, r"gives agent b \(.*\) 3 ranks of replica 0, and it has room for 2"),
        (4, False, r"several hosts \(10.0.0.1, 10.0.0.9\), whose collectives are not encrypted"),
    ],
)
def test_what_a_table_cannot_give_is_named(
    agents: list[RemoteAgent], size: int, opened: bool, said: str
) -> None:
    with pytest.raises(NoPlace, match=said):
        agent_shares(replica(0, size), agents, lambda address: opened)


def test_a_server_without_an_agent_is_named(agents: list[RemoteAgent]) -> None:
    said = r"servers without a host: b; the hosts are a \(a, 10.0.0.1\)"
    with pytest.raises(NoPlace, match=said):
        agent_shares(replica(0, 4), agents[1:], lambda address: True)


def test_agents_whose_network_is_not_trusted_are_told_so(agents: list[RemoteAgent]) -> None:
    known = "needs an agent with room for them: agent b (process 1 on b) has room for 2, agent a"
    told = lack_of_room(3, agents, lambda address: False)
    assert known in told
    assert "name the network of 10.0.0.1, 10.0.0.9 in trusted_networks" in told
    assert "trusted_networks" not in lack_of_room(5, agents, lambda address: False)
