"""What failures look like to the ranks of one host; test_conformance.py has what succeeds."""

from __future__ import annotations

import time

import pytest
from processes import wait_until

from rankmesh.comm.collectives.shared_memory.layout import SLOT_BYTES
from rankmesh.comm.job_memory.arena import Cause
from rankmesh.comm.job_memory.progress import Progress

SOON = 5
"""Seconds that ranks wait for each other where a test wants this to pass; enough for all to be
there before.
"""


@pytest.mark.parametrize("size", [1024, 3_000_000])
def test_survivors_of_a_kill_name_the_dead_rank(start_ranks, size):
    ranks = start_ranks(3, "repeat", size=size)
    wait_until(lambda: all(count_of(ranks, rank) > 5 for rank in range(3)), "all to reduce")
    ranks.kill(1)
    killed = time.monotonic()
    ranks.arena.abort(1, Cause.DIED, "rank 1 was killed by signal 9")
    for rank in (0, 2):
        assert ranks.answer(rank) == {
            "error": "CollectiveAborted",
            "text": "rank 1 was killed by signal 9",
        }
    assert time.monotonic() - killed < 50  # of the 60 that they wait


def test_absent_rank_is_named_with_its_stage_and_last_collective(start_ranks):
    ranks = start_ranks(3, "absent", timeout=SOON)
    answers = [ranks.answer(rank) for rank in (0, 1)]
    assert "CollectiveTimeout" in [answer["error"] for answer in answers]
    assert answers[0]["text"] == answers[1]["text"]
    assert "collective 1 (AllGather of node 'second')" in answers[0]["text"]
    assert (
        "rank 2 never entered it (it is BUILDING and last finished collective 0 (AllReduce of "
        "node 'first'))"
    ) in answers[0]["text"]
    record = ranks.arena.aborted()
    assert (record.rank, record.cause) == (2, Cause.LATE)


def test_rank_at_the_end_of_a_chain_is_the_culprit(start_ranks):
    ranks = start_ranks(3, "chain", timeout=SOON)
    texts = [ranks.answer(rank)["text"] for rank in (0, 1)]
    assert texts[0] == texts[1]
    assert "it is READING and has finished no collective yet" in texts[0]
    assert ranks.arena.aborted().rank == 2


@pytest.mark.parametrize(
    ("enters", "said"),
    [
        (
            [("AllReduce", 4, "float32"), ("AllGather", 4, "float32")],
            ("AllReduce(sum) of", "AllGather of"),
        ),
        (
            [("AllReduce", 4, "float32"), ("AllReduce", 5, "float32")],
            ("of 16 bytes", "of 20 bytes"),
        ),
        ([("AllReduce", 4, "float32"), ("AllReduce", 4, "int32")], ("of float32", "of int32")),
        ([("Broadcast", 4, "bool"), ("Broadcast", 900_000, "float64")], ("of bool", "of float64")),
    ],
)
def test_mismatch_names_both_ranks_and_what_they_entered(start_ranks, enters, said):
    ranks = start_ranks(2, "mismatch", enters=enters)
    answers = [ranks.answer(rank) for rank in (0, 1)]
    assert "CollectiveMismatch" in [answer["error"] for answer in answers]
    assert answers[0]["text"] == answers[1]["text"]
    for rank in (0, 1):
        kind = enters[rank][0]
        assert (
            f"rank {rank} entered collective 7 ({kind} of node 'node{rank}')" in answers[0]["text"]
        )
        assert said[rank] in answers[0]["text"]


@pytest.mark.parametrize("kind", ["AllGather", "AllToAll", "ReduceScatter"])
@pytest.mark.parametrize(("world", "size"), [(2, 5), (3, 1000), (2, SLOT_BYTES // 4 + 1)])
def test_the_same_arrays_again_and_again(start_ranks, kind, world, size):
    ranks = start_ranks(world, "again", kind=kind, size=size, turns=9)
    assert [ranks.answer(rank) for rank in range(world)] == [{"wrong": []}] * world


def test_receive_of_another_size_than_sent(start_ranks):
    ranks = start_ranks(2, "mismatched_pair")
    answer = ranks.answer(1)
    assert answer["error"] == "CollectiveMismatch"
    assert (
        "rank 1 in collective 0 (Receive of node 'receive') expects from rank 0" in answer["text"]
    )
    assert (
        "of 40 bytes of float64, but rank 0 sent: Send/Receive with tag 0 of 32 bytes"
        in answer["text"]
    )


def count_of(ranks, rank):
    finished = Progress(ranks.arena, rank).read().finished
    return finished.count if finished else 0
