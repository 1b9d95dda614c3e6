"""What failures look like to ranks whose collectives torch.distributed carries out."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest
from processes import wait_until

from rankmesh.comm.errors import UsageError
from rankmesh.comm.job_memory.arena import Cause
from rankmesh.comm.job_memory.progress import Progress

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)

StartRanks = Callable[..., Any]


@pytest.mark.slow
def test_survivor_of_a_kill_says_what_its_launcher_saw(start_ranks: StartRanks) -> None:
    """gloo may miss the end of a peer that it sends to: once in 100 kills its own deadline tells.

    A rank's failure monitor ends the process before; the ranks here have none.
    """
    ranks = start_ranks(2, "repeat", by="gloo", size=1024, timeout=10)
    wait_until_they_reduce(ranks)
    ranks.kill(1)
    ranks.arena.abort(1, Cause.DIED, "rank 1 was killed by signal 9")
    assert ranks.answer(0) == {
        "error": "CollectiveAborted",
        "text": "rank 1 was killed by signal 9",
    }


@pytest.mark.slow
def test_survivor_that_nobody_tells_says_that_its_peer_is_gone(start_ranks: StartRanks) -> None:
    ranks = start_ranks(2, "repeat", by="gloo", size=1024, timeout=10)
    wait_until_they_reduce(ranks)
    ranks.kill(1)
    answer = ranks.answer(0)
    if (
        answer["error"] == "CollectiveTimeout"
    ):  # killed between two collectives, where gloo has nothing to lose
        assert "rank 1 never entered it" in answer["text"]
    else:
        assert answer["error"] == "CollectiveAborted"
        assert (
            "rank 0 of 2 on testhost: gloo failed in collective 3 (AllReduce of node "
            "'mlp/AllReduce-op1')"
        ) in (answer["text"])


@pytest.mark.slow
def test_absent_rank_is_named_with_its_stage(start_ranks: StartRanks) -> None:
    ranks = start_ranks(2, "absent", by="gloo", timeout=3)
    answer = ranks.answer(0)
    assert answer["error"] == "CollectiveTimeout"
    assert (
        "rank 1 never entered it (it is BUILDING and last finished collective 0" in answer["text"]
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("enters", "said"),
    [
        (
            [("AllReduce", 4, "float32"), ("AllReduce", 5, "float32")],
            ("AllReduce(sum) of 16", "AllReduce(sum) of 20"),
        ),
        (
            [("AllReduce", 4, "float32"), ("AllGather", 4, "float32")],
            ("AllReduce(sum) of 16", "AllGather of 16"),
        ),
    ],
)
def test_mismatch_names_both_ranks_and_what_they_came_for(
    start_ranks: StartRanks,
    enters: list[tuple[str, int, str]],
    said: tuple[str, str],
) -> None:
    ranks = start_ranks(2, "mismatch", by="gloo", enters=enters, timeout=3)
    answers = [ranks.answer(rank) for rank in (0, 1)]
    assert "CollectiveMismatch" in [answer["error"] for answer in answers]
    for answer in answers:  # each rank may have found it by itself
        assert f"rank 0 comes for {said[0]}" in answer["text"]
        assert f"rank 1 comes for {said[1]}" in answer["text"]


def test_nccl_without_a_gpu_is_refused() -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    from rankmesh.comm.collectives.libraries.torch_groups import find_device
    from rankmesh.comm.job.rank import Rank

    with pytest.raises(UsageError, match="nccl need an NVIDIA GPU, and torch finds none"):
        find_device("nccl", Rank(0, 1, 0, 1, "here", 0))


def test_nccl_takes_the_device_of_its_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from rankmesh.comm.collectives.libraries.torch_groups import find_device
    from rankmesh.comm.job.rank import Rank

    taken: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    device = find_device("nccl", Rank(1, 2, 1, 2, "here", 3))
    assert taken == [device] and str(device) == "cuda:3"


def test_hccl_without_torch_npu_is_refused() -> None:
    if importlib.util.find_spec("torch_npu"):
        pytest.skip("there is torch_npu")
    from rankmesh.comm.collectives.libraries.torch_groups import find_device
    from rankmesh.comm.job.rank import Rank

    with pytest.raises(UsageError, match="hccl need torch_npu, which cannot be imported"):
        find_device("hccl", Rank(0, 1, 0, 1, "here", 0))


def wait_until_they_reduce(ranks: Any) -> None:
    wait_until(
        lambda: all(finished_of(ranks, rank) > 5 for rank in range(2)), "both ranks to reduce"
    )


def finished_of(ranks: Any, rank: int) -> int:
    finished = Progress(ranks.arena, rank).read().finished
    return finished.count if finished else 0
