from __future__ import annotations

import re
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankmesh.launch.launchers.rank_printer import LineFolder, prefix

pytestmark = pytest.mark.pure

RANKS = 3
WRITES = st.tuples(st.integers(0, RANKS - 1), st.sampled_from([1, 2]), st.sampled_from("abc"))
LATE = 10.0


def named(head: str) -> list[int]:
    """The ranks that a prefix names."""
    found = []
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", head):
        found += range(int(first), int(last or first) + 1)
    return found


def printed(lines: list[tuple[int, str]]) -> dict[int, list[tuple[int, str]]]:
    """What each rank wrote, according to the printed lines."""
    found: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for stream, line in lines:
        head, text = line.split("] ", 1)
        for rank in named(head):
            found[rank].append((stream, text))
    return found


def folded(*writes: tuple[int, str]) -> list[str]:
    folder = LineFolder(RANKS)
    for rank, line in writes:
        folder.add(rank, 1, line, 0.0)
    return [line for _, line in folder.ready(LATE)]


@given(st.lists(st.tuples(WRITES, st.floats(0, 0.2))))
def test_each_rank_keeps_its_lines_in_order(
    writes: list[tuple[tuple[int, int, str], float]],
) -> None:
    folder, lines, now = LineFolder(RANKS), [], 0.0
    expected: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for (rank, stream, line), pause in writes:
        now += pause
        folder.add(rank, stream, line, now)
        expected[rank].append((stream, line))
        lines += folder.ready(now)
    lines += folder.ready(now, everything=True)
    assert printed(lines) == expected
    assert folder.next_timeout(now) is None


@given(st.lists(st.sampled_from("abcd"), max_size=20), st.data())
def test_ranks_that_write_the_same_become_one(lines: list[str], data: st.DataObject) -> None:
    order = data.draw(st.permutations([rank for rank in range(RANKS) for _ in lines]))
    left = {rank: iter(lines) for rank in range(RANKS)}
    assert folded(*[(rank, next(left[rank])) for rank in order]) == [
        f"[ranks 0-2] {line}" for line in lines
    ]


def test_lines_of_one_rank_alone_do_not_keep_the_others_apart() -> None:
    assert folded(
        (0, "rank 0"),
        (0, "same"),
        (0, "end"),
        (1, "rank 1"),
        (1, "same"),
        (2, "rank 2"),
        (2, "same"),
    ) == [
        "[rank 0] rank 0",
        "[rank 1] rank 1",
        "[rank 2] rank 2",
        "[ranks 0-2] same",
        "[rank 0] end",
    ]


def test_crossed_lines_stay_apart() -> None:
    assert folded((0, "a"), (0, "b"), (1, "b"), (1, "a")) == [
        "[rank 0] a",
        "[ranks 0-1] b",
        "[rank 1] a",
    ]


def test_streams_are_told_apart() -> None:
    folder = LineFolder(2)
    folder.add(0, 1, "x", 0.0)
    folder.add(1, 2, "x", 0.0)
    assert folder.ready(LATE) == [(1, "[rank 0] x"), (2, "[rank 1] x")]


def test_complete_line_waits_for_nothing_and_others_for_the_delay() -> None:
    folder = LineFolder(2, delay=0.1)
    folder.add(0, 1, "x", 5.0)
    assert folder.ready(5.05) == [] and folder.next_timeout(5.05) == pytest.approx(0.05)
    folder.add(1, 1, "x", 5.06)
    assert folder.ready(5.06) == [(1, "[ranks 0-1] x")]
    folder.add(1, 1, "y", 6.0)
    assert folder.ready(6.1) == [(1, "[rank 1] y")]


def test_flood_is_taken_in_time_that_grows_with_it() -> None:
    folder = LineFolder(2)
    for rank in (0, 1):
        for _ in range(20_000):
            folder.add(rank, 1, "y", 0.0)
    assert sum(len(named(line.split("]")[0])) for _, line in folder.ready(LATE)) == 40_000


@pytest.mark.parametrize(
    "ranks, text",
    [
        ({2}, "[rank 2]"),
        ({0, 1, 2, 3}, "[ranks 0-3]"),
        ({0, 2, 3}, "[ranks 0,2-3]"),
        ({9, 11}, "[ranks 9,11]"),
    ],
)
def test_prefix(ranks: set[int], text: str) -> None:
    assert prefix(ranks) == text
