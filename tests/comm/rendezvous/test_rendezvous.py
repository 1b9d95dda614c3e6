from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from rankmesh.comm.collective_call import Call, Kind, RankGroup
from rankmesh.comm.errors import RankFailed, ShardMismatch
from rankmesh.comm.job.rank import Rank
from rankmesh.comm.job_memory.arena import Arena
from rankmesh.comm.job_memory.progress import Progress, Stage
from rankmesh.comm.rendezvous.rendezvous import ChannelRendezvous
from rankmesh.comm.transport.channel import Channel
from rankmesh.comm.transport.messages import Exchange, Exchanged, Failed, Finished

pytestmark = pytest.mark.pure

RANK = Rank(0, 1, 0, 1, "here", 0)


@pytest.fixture
def arena() -> Iterator[Arena]:
    arena = Arena.create(1)
    yield arena
    arena.close()


@pytest.fixture
def meeting(arena: Arena) -> Iterator[tuple[ChannelRendezvous, Channel]]:
    mine, relays = Channel.pair()
    yield ChannelRendezvous(RANK, mine, arena, 5.0), relays
    mine.close()
    relays.close()


def test_an_exchange_is_relayed(meeting: tuple[ChannelRendezvous, Channel]) -> None:
    rank, relay = meeting
    relay.send(Exchanged([b"zero", b"one"]))
    assert rank.exchange(b"mine") == [b"zero", b"one"]
    assert relay.receive() == Exchange(b"mine")


def test_a_relay_that_is_gone(meeting: tuple[ChannelRendezvous, Channel]) -> None:
    rank, relay = meeting
    relay.close()
    for _ in range(2):  # noticed while sending as well as while waiting
        with pytest.raises(
            RankFailed,
            match="rank 0 of 1 on here: the process that brings the ranks together is gone",
        ):
            rank.exchange(b"mine")


def test_an_answer_that_is_none(meeting: tuple[ChannelRendezvous, Channel]) -> None:
    rank, relay = meeting
    relay.send(Finished(b""))
    with pytest.raises(RankFailed, match="expected the other ranks' payloads, got Finished"):
        rank.exchange(b"mine")


def test_an_exchange_that_failed_for_all(meeting: tuple[ChannelRendezvous, Channel]) -> None:
    rank, relay = meeting
    relay.send(Failed("ShardMismatch", "rank 1 has another model"))
    with pytest.raises(ShardMismatch, match="rank 1 has another model"):
        rank.exchange(b"mine")


def test_stages_are_seen_by_others(
    meeting: tuple[ChannelRendezvous, Channel], arena: Arena
) -> None:
    rank, _ = meeting
    assert Progress(arena, 0).stage is Stage.STARTING
    rank.enter(Stage.CHECKING)
    assert Progress(arena, 0).stage is Stage.CHECKING


def test_collectives_of_the_meeting(meeting: tuple[ChannelRendezvous, Channel]) -> None:
    collectives = meeting[0].collectives([(0,)], [(0, 0)])
    group, x, out = RankGroup("g", (0,)), np.arange(3.0), np.zeros(3)
    collectives.run(Call(kind=Kind.ALL_REDUCE, group=group), [x], [out])
    np.testing.assert_array_equal(out, x)
    collectives.run(Call(kind=Kind.SEND, group=group, sends_to=(0,)), [x + 1], [])
    collectives.run(Call(kind=Kind.RECEIVE, group=group, receives_from=(0,)), [], [out])
    np.testing.assert_array_equal(out, x + 1)
    collectives.close()
