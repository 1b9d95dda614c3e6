from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from rankmesh.comm.job.environment import CHANNEL_VARIABLE, described, inherited_fds

pytestmark = pytest.mark.pure


@pytest.fixture
def fds() -> Iterator[tuple[int, int]]:
    pair = os.memfd_create("channel"), os.memfd_create("arena")
    yield pair
    for fd in pair:
        os.close(fd)


def test_descriptors_are_found_again(fds: tuple[int, int]) -> None:
    assert inherited_fds({CHANNEL_VARIABLE: described(*fds)}) == fds


def test_nothing_was_inherited() -> None:
    assert inherited_fds({}) is None


def test_another_file_under_the_number_is_not_taken(fds: tuple[int, int]) -> None:
    text = described(*fds)
    other = os.memfd_create("other")
    os.dup2(other, fds[0])
    os.close(other)
    assert inherited_fds({CHANNEL_VARIABLE: text}) is None


@pytest.mark.parametrize(
    "text", ["", ":", "1", "1.2", "x.y:z.w", "987654.1:987655.1", "3.1:4.1:5.1", f"{10**30}.1:1.1"]
)
def test_stale_or_foreign_values(text: str) -> None:
    assert inherited_fds({CHANNEL_VARIABLE: text}) is None
