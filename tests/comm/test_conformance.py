"""Every kind of collective by every implementation, between real processes, compared with numpy.

test_mpi_collectives.py has the same for MPI, whose ranks mpirun must start.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from collective_cases import KINDS, disagreements

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)
SHARED_MEMORY = "shared_memory"

StartRanks = Callable[..., Any]


def played(
    start_ranks: StartRanks, by: str, world: int, count: int, kinds: list[str], seed: int = 1
) -> None:
    """All ranks get what numpy gets, and the same bits."""
    ranks = start_ranks(world, "compare", by=by, seed=seed, count=count, kinds=kinds)
    answers = [ranks.answer(rank) for rank in range(world)]
    assert [answer["wrong"] for answer in answers] == [[]] * world
    assert [answer["cases"] for answer in answers] == [count or 4] * world
    assert disagreements([answer["digests"] for answer in answers]) == []
    assert by != SHARED_MEMORY or not any(answer["named"] for answer in answers)


@pytest.mark.parametrize("kind", KINDS)
def test_kind_gives_what_numpy_gives(start_ranks: StartRanks, kind: str) -> None:
    played(start_ranks, SHARED_MEMORY, world=3, count=60, kinds=[kind])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("by", "world"),
    [
        *((SHARED_MEMORY, world) for world in (1, 2, 4)),
        pytest.param("gloo", 1, marks=needs_torch),  # 64 megabytes are for two ranks
    ],
)
def test_mixed_sequence_gives_what_numpy_gives(
    start_ranks: StartRanks, by: str, world: int
) -> None:
    played(start_ranks, by, world, count=120, kinds=KINDS, seed=world)


@pytest.mark.slow
@needs_torch
def test_every_kind_by_torch(start_ranks: StartRanks) -> None:
    """Four ranks, and groups of one to four of them."""
    played(start_ranks, "gloo", world=4, count=150, kinds=KINDS, seed=7)


@pytest.mark.slow
@pytest.mark.parametrize("by", [SHARED_MEMORY, pytest.param("gloo", marks=needs_torch)])
def test_64_megabytes(start_ranks: StartRanks, by: str) -> None:
    played(start_ranks, by, world=2, count=0, kinds=[])


@pytest.mark.gpu
@needs_torch
def test_mixed_sequence_over_nccl(start_ranks: StartRanks) -> None:
    gpus = gpu_count()
    if gpus < 2:
        pytest.skip(f"nccl needs a GPU for each of two ranks, and there are {gpus}")
    played(start_ranks, "nccl", world=min(gpus, 4), count=200, kinds=KINDS)


def gpu_count() -> int:
    if shutil.which("nvidia-smi") is None:
        return 0
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30).stdout
    return sum(line.startswith("GPU ") for line in listed.splitlines())
