"""What a rank writes about itself is what others read."""

from __future__ import annotations

import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankmesh.comm.collective_call import Call, Kind, RankGroup
from rankmesh.comm.job_memory.arena import Arena
from rankmesh.comm.job_memory.progress import EnteredCollective, Progress, ProgressSnapshot, Stage

pytestmark = pytest.mark.pure

GROUP = RankGroup("pair", (0, 1))


@pytest.fixture
def arena():
    made = Arena.create(2)
    yield made
    made.close()


def test_a_rank_that_wrote_nothing_is_starting(arena):
    assert Progress(arena, 1).read() == ProgressSnapshot(Stage.STARTING, None, 0, None)
    assert str(Progress(arena, 1).read()) == "is STARTING and has finished no collective yet"


@pytest.mark.parametrize("stage", Stage)
def test_stage_comes_back(arena, stage):
    Progress(arena, 1).stage = stage
    assert Progress(arena, 1).read().stage is stage
    assert Progress(arena, 0).read().stage is Stage.STARTING


def test_times_of_requests_come_back_in_seconds(arena):
    Progress(arena, 1).note_times(1_500_000_000, 250_000_000)
    seen = Progress(arena, 1).read()
    assert (seen.run_seconds, seen.collective_seconds) == (1.5, 0.25)
    assert Progress(arena, 0).read().run_seconds == 0


def test_inside_a_collective(arena):
    mine, seen = Progress(arena, 0), Progress(arena, 0)
    mine.stage = Stage.RUNNING
    ticket = mine.announce(Call(kind=Kind.SEND, group=GROUP, index=4, node="out/Send"))
    before = time.monotonic_ns()
    mine.enter(1, ticket)
    snapshot = seen.read()
    assert snapshot.waiting
    assert snapshot.entered == EnteredCollective(1, 4, Kind.SEND, "out/Send")
    assert before <= snapshot.entered_at <= time.monotonic_ns()
    assert str(snapshot).startswith(
        "is RUNNING, inside collective 4 (Send of node 'out/Send') for 0."
    )
    mine.finish()
    assert not seen.read().waiting
    assert str(seen.read()) == "is RUNNING and last finished collective 4 (Send of node 'out/Send')"


@given(
    index=st.integers(0, 2**24 - 1),
    count=st.integers(1, 2**32 - 1),
    kind=st.sampled_from(Kind),
    node=st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=300),
)
def test_any_entry_comes_back(index, count, kind, node):
    arena = Arena.create(1)
    progress = Progress(arena, 0)
    progress.enter(count, progress.announce(Call(kind=kind, group=GROUP, index=index, node=node)))
    entry = progress.read().entered
    assert (entry.count, entry.index, entry.kind) == (count, index, kind)
    assert node.endswith(entry.node)
    if index < 2000 and len(node.encode()) < 256:
        assert entry.node == node
    arena.close()


def test_cores_come_back(arena):
    assert Progress(arena, 0).cores() == 0
    Progress(arena, 0).note_cores()
    assert Progress(arena, 0).cores() == sum(1 << core for core in os.sched_getaffinity(0))
