"""The collectives and the meeting of a world of one."""

from __future__ import annotations

import numpy as np
import pytest

from rankmesh import CollectiveMismatch
from rankmesh.comm.collective_call import Call, Kind, RankGroup
from rankmesh.comm.collectives.single_rank import SingleRankCollectives
from rankmesh.comm.job.identity import single_rank
from rankmesh.comm.job_memory.progress import Stage
from rankmesh.comm.rendezvous.rendezvous import SingleRank

pytestmark = pytest.mark.pure

ME = RankGroup("world", (0,))
COPYING = [kind for kind in Kind if kind not in (Kind.SEND, Kind.RECEIVE)]


def test_the_meeting_has_one_member():
    meeting = SingleRank(single_rank())
    meeting.enter(Stage.READY)
    assert meeting.exchange(b"mine") == [b"mine"]
    assert meeting.rank.world_size == 1
    meeting.collectives([(0,)], []).close()


@pytest.mark.parametrize("kind", COPYING, ids=lambda kind: kind.value)
def test_every_result_is_the_own_operand(kind: Kind):
    operands = [np.arange(6, dtype=np.float32).reshape(2, 3)]
    results = [np.zeros((2, 3), np.float32)]
    neighbours = (0,) if kind is Kind.NEIGHBOR_EXCHANGE else ()
    SingleRankCollectives().run(
        Call(kind=kind, group=ME, sends_to=neighbours, receives_from=neighbours), operands, results
    )
    np.testing.assert_array_equal(results[0], operands[0])


def test_an_operand_may_be_its_own_result():
    operand = np.ones(3, np.float32)
    SingleRankCollectives().run(Call(kind=Kind.ALL_REDUCE, group=ME), [operand], [operand])
    np.testing.assert_array_equal(operand, np.ones(3))


def test_messages_to_itself_come_in_order_and_by_tag():
    collectives = SingleRankCollectives()
    for tag, value in ((1, 10), (2, 20), (1, 11)):
        collectives.run(
            Call(kind=Kind.SEND, group=ME, sends_to=(0,), tag=tag), [np.array([value])], []
        )
    received = []
    for tag in (1, 1, 2):
        result = np.zeros(1, np.int64)
        collectives.run(
            Call(kind=Kind.RECEIVE, group=ME, receives_from=(0,), tag=tag), [], [result]
        )
        received.append(int(result[0]))
    assert received == [10, 11, 20]
    with pytest.raises(CollectiveMismatch, match="has not sent"):
        collectives.run(
            Call(kind=Kind.RECEIVE, group=ME, receives_from=(0,), tag=1), [], [np.zeros(1)]
        )
