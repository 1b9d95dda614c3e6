"""The arena's file, its abort notes, and waking a sleeper, without any rank process."""

from __future__ import annotations

import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from processes import PATIENCE

from rankmesh.comm.errors import RankmeshError
from rankmesh.comm.job_memory import futex
from rankmesh.comm.job_memory.arena import (
    ABORT_WORD,
    PAGE,
    TEXT_BYTES,
    AbortRecord,
    Arena,
    Cause,
    header_bytes,
    record_byte,
    waiting_word,
)

pytestmark = pytest.mark.pure


@pytest.fixture
def arena():
    made = Arena.create(3)
    yield made
    made.close()


def attached(arena, rank=None):
    return Arena.attach(os.dup(arena.fd), rank)


def test_attached_arena_sees_the_same_words(arena):
    other = attached(arena, 2)
    assert other.world_size == 3
    arena.words[waiting_word(1)] = 7
    assert other.words[waiting_word(1)] == 7
    other.close()


def test_file_has_no_name_and_does_not_survive_exec(arena):
    assert os.readlink(f"/proc/self/fd/{arena.fd}").startswith("/memfd:")
    assert not os.get_inheritable(arena.fd)


def test_file_cannot_shrink(arena):
    with pytest.raises(PermissionError):
        os.ftruncate(arena.fd, PAGE)


def test_untouched_pages_cost_nothing(arena):
    arena.grow(1 << 32)
    assert os.fstat(arena.fd).st_blocks * 512 <= 16 * PAGE


def test_growing_is_idempotent_and_never_shrinks(arena):
    other = attached(arena, 0)
    size = header_bytes(3) + 10 * PAGE
    for each in (arena, other, arena):
        each.grow(size)
    other.grow(size - PAGE)
    assert os.fstat(arena.fd).st_size == size
    arena.words[size // 8 - PAGE // 8 - 1] = 5
    assert other.words[-1] == 5
    other.close()


@given(
    text=st.text(max_size=3000), rank=st.none() | st.integers(0, 2), cause=st.sampled_from(Cause)
)
def test_abort_record_comes_back(text, rank, cause):
    arena = Arena.create(3)
    other = attached(arena, 1)
    assert other.aborted() is None
    arena.abort(rank, cause, text)
    kept = text.encode()[:TEXT_BYTES].decode(errors="ignore")
    assert other.aborted() == AbortRecord(rank, cause, kept)
    other.close()
    arena.close()


@pytest.mark.parametrize("second", [None, 0, 2])
def test_first_abort_wins(arena, second):
    arena.abort(1, Cause.DIED, "first")
    other = attached(arena, second)
    other.abort(2, Cause.LATE, "second")
    assert arena.aborted() == other.aborted() == AbortRecord(1, Cause.DIED, "first")
    other.close()


def test_each_author_has_a_note_of_its_own(arena):
    ranks = [attached(arena, rank) for rank in range(3)]
    for rank in ranks:
        rank.words[ABORT_WORD] = 0  # as if all found the abort word free at the same moment
        rank.abort(rank.world_size - 1, Cause.LATE, "x" * rank.fd)
    assert arena.aborted() == AbortRecord(2, Cause.LATE, "x" * ranks[-1].fd)
    for rank in ranks:
        rank.close()


def test_abort_wakes_who_sleeps_beyond_the_launchers_mapping(arena):
    other = attached(arena, 1)
    other.grow(header_bytes(3) + PAGE)
    woken = []

    def sleep():
        other.words[waiting_word(1)] = header_bytes(3)
        while not other.aborted():
            woken.append(futex.wait(other.address + header_bytes(3), 0))

    thread = threading.Thread(target=sleep)
    thread.start()
    while not woken:  # the first slice has passed: it sleeps, or is just about to
        pass
    arena.abort(0, Cause.STOPPED, "enough")
    thread.join(PATIENCE)
    assert not thread.is_alive()
    other.close()


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x")
    for content, said in ((b"x", "holds 1 bytes"), (bytes(PAGE), "is no arena of version 1")):
        path.write_bytes(content)
        with path.open("rb+") as file, pytest.raises(RankmeshError, match=said):
            Arena.attach(file.fileno(), 0)


def test_rank_outside_the_world_is_refused(arena):
    with pytest.raises(RankmeshError, match="rank 3 does not belong to an arena of 3 ranks"):
        Arena.attach(arena.fd, 3)


def test_records_do_not_overlap():
    assert record_byte(0) == PAGE
    assert header_bytes(2) == record_byte(2)
