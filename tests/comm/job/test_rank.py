from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankmesh.comm.job.rank import Rank

pytestmark = pytest.mark.pure


@given(
    st.integers(-2, 5),
    st.integers(-2, 5),
    st.integers(-2, 5),
    st.integers(-2, 5),
    st.integers(-2, 2),
)
def test_only_identities_that_can_be(
    rank: int, world: int, local: int, local_size: int, device: int
) -> None:
    possible = 0 <= rank < world and 0 <= local < local_size <= world and device >= 0
    try:
        made = Rank(rank, world, local, local_size, "h", device)
    except ValueError:
        assert not possible
    else:
        assert possible and made.rank == rank


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((4, 4, 0, 1, 0), "rank 4 is outside a world of 4 ranks"),
        ((-1, 4, 0, 1, 0), "rank -1 is outside"),
        ((0, 0, 0, 0, 0), "rank 0 is outside a world of 0 ranks"),
        ((0, 2, 2, 2, 0), "local rank 2 of 2 does not fit a world of 2"),
        ((0, 2, 0, 3, 0), "local rank 0 of 3"),
        ((0, 2, -1, 2, 0), "local rank -1 of 2"),
        ((0, 2, 0, 2, -1), "device -1 is negative"),
    ],
)
def test_the_error_says_what_was_got(numbers: tuple[int, int, int, int, int], text: str) -> None:
    rank, world, local, local_size, device = numbers
    with pytest.raises(ValueError, match=text):
        Rank(rank, world, local, local_size, "h", device)


def test_an_identity_is_frozen_and_named() -> None:
    rank = Rank(2, 4, 0, 2, "node7", 3)
    assert str(rank) == "rank 2 of 4 on node7"
    with pytest.raises(AttributeError):
        rank.rank = 1  # type: ignore[misc]
    assert rank == Rank(2, 4, 0, 2, "node7", 3) and hash(rank) == hash(Rank(2, 4, 0, 2, "node7", 3))
    with pytest.raises(ValueError, match="outside"):
        msgspec.structs.replace(rank, rank=9)
