"""Updated weights on the host of an agent: which are sent, freed, and sent again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from rankmesh.comm.agents.messages import ToAgent
from rankmesh.comm.agents.weight_messages import DropWeights, PutWeight
from rankmesh.comm.request_memory.owned_arena import OwnedArena
from rankmesh.orchestrator.agents.agent_weights import AgentWeights

pytestmark = pytest.mark.pure


@pytest.fixture
def arena() -> Iterator[OwnedArena]:
    arena = OwnedArena(0, 1 << 24)
    yield arena
    arena.close()


def test_a_weight_is_sent_once_and_freed_behind_this_host(arena: OwnedArena) -> None:
    sent: list[tuple[ToAgent, int]] = []

    def send(message: ToAgent, tensors: Sequence[memoryview]) -> None:
        sent.append((message, sum(map(len, tensors))))

    weights, kept, freed = AgentWeights(send), arena.allocate(4096), arena.allocate(8192)
    assert weights.have([kept, freed], filled=True) == [1, 2]
    assert weights.have([freed, kept], filled=True) == [2, 1]
    assert sent == [(PutWeight(1, 4096), 4096), (PutWeight(2, 8192), 8192)]
    assert not weights.stale
    del freed
    assert weights.stale
    weights.drop_freed()
    assert sent[2:] == [(DropWeights([2]), 0)] and not weights.stale
    assert weights.have([kept], filled=True) == [1] and len(sent) == 3


def test_a_weight_that_found_no_memory_is_sent_again(arena: OwnedArena) -> None:
    sent: list[ToAgent] = []
    weights, region = AgentWeights(lambda message, _: sent.append(message)), arena.allocate(4096)
    assert weights.have([region], filled=False) == [1]
    weights.lack(1)
    assert weights.have([region], filled=True) == [2]
    assert sent == [PutWeight(1, 4096), PutWeight(2, 4096)]
