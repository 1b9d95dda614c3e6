from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankmesh.comm.job.rank import Rank
from rankmesh.launch.rank.rank_environment import rank_variables, replaced

pytestmark = pytest.mark.pure

RANK = Rank(1, 4, 1, 2, "here", 5)


def test_variables() -> None:
    assert rank_variables(RANK, [4, 5], "/t.json", {}) == {
        "RANK": "1",
        "WORLD_SIZE": "4",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "RANK_ID": "1",
        "RANK_SIZE": "4",
        "DEVICE_ID": "5",
        "CUDA_VISIBLE_DEVICES": "4,5",
        "RANK_TABLE_FILE": "/t.json",
    }


def test_rank_table_file_only_with_a_rank_table() -> None:
    assert "RANK_TABLE_FILE" not in rank_variables(RANK, [0, 1], None, {})


@pytest.mark.parametrize(
    "devices, users, expected",
    [
        ([0, 1], None, "0,1"),
        ([5, 4], None, "5,4"),  # in rank order
        ([0, 0, 1, 1], None, "0,1"),
        ([0, 1], "6, 7,8", "6,7"),  # devices count among the user's
        ([1, 0], "6,7", "7,6"),
        ([0, 1], "GPU-aaaa,GPU-bbbb", "GPU-aaaa,GPU-bbbb"),
        ([0, 1], "", ""),  # who hides all keeps them hidden
        ([0, 1], "-1", "-1"),
        ([0, 1, 2, 3], "6,7", "6,7"),
        ([4, 5], "4,5", "4,5"),
    ],
)
def test_visible_devices(devices: list[int], users: str | None, expected: str) -> None:
    environ = {} if users is None else {"CUDA_VISIBLE_DEVICES": users}
    assert rank_variables(RANK, devices, None, environ)["CUDA_VISIBLE_DEVICES"] == expected


def test_a_rank_sees_its_own_mig_instance() -> None:
    rank, environ = Rank(1, 2, 1, 2, "here", 1), {"CUDA_VISIBLE_DEVICES": "MIG-aa, MIG-bb"}
    assert rank_variables(rank, [0, 1], None, environ)["CUDA_VISIBLE_DEVICES"] == "MIG-bb"


def test_placeholders() -> None:
    arguments = [
        "--model=m{rank}.mindir",
        "{local_rank}/{world_size}",
        "{device}",
        "{other} {} {{rank}}",
        "{ rank }",
    ]
    assert replaced(arguments, RANK) == [
        "--model=m1.mindir",
        "1/4",
        "5",
        "{other} {} {1}",
        "{ rank }",
    ]


@given(st.lists(st.text(st.characters(exclude_characters="{}", exclude_categories=["Cs"]))))
def test_other_arguments_stay(arguments: list[str]) -> None:
    assert replaced(arguments, RANK) == arguments
