"""A user's script under a real mpirun: ranks that die, stop, leave or raise end the job at once,
with their name.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from mpirun import SCRIPT, mpirun, run_ranks
from processes import segments
from shards import all_reduce, summing, with_a_busy_rank, write_shard

AT_ONCE = 40.0
"""A second on a machine of its own, and what a busy one may take: far less than the 60 that
collectives wait.
"""

SOON = 6
"""Seconds that ranks wait for each other where a test wants this to pass, and MPI keeps a core of
each busy; enough for all to be there before.
"""


def test_ranks_meet_and_reduce(tmp_path: Path) -> None:
    before = segments()
    ended = run_ranks(3, summing(tmp_path, 3))
    assert ended.status == 0, ended.text
    for rank in range(3):
        assert f"rank {rank}: [12.0, 12.0, 12.0, 12.0]" in ended.text
    assert segments() <= before and not ended.last_words()


@pytest.mark.parametrize(
    ("action", "status", "said"),
    [
        ("raise", {1}, "rank 2 of 3 on {host} raised ValueError: this rank has had enough"),
        ("raise-inside", {3}, "rank 2 of 3 on {host} raised InputError: "),
        ("exit", {4}, "for rank 2, whose process has ended"),
        ("leave", {4}, "for rank 2, whose process has ended"),
        ("kill", {4, 137}, "rank 2 of 3 on {host} (process "),
        ("exit-at-once", {1, 4}, "rank 2 of 3 on {host} (process "),
    ],
)
def test_rank_that_is_gone_ends_the_job_at_once(
    tmp_path: Path, action: str, status: set[int], said: str
) -> None:
    """mpirun ends with the status that it sees first: the lost rank's, or that of one which names
    it.
    """
    before = segments()
    ended = run_ranks(3, summing(tmp_path, 3), action)
    assert ended.seconds_after(action) < AT_ONCE
    assert ended.status in status, ended.text
    (last,) = ended.last_words()
    assert said.format(host=os.uname().nodename) in last
    assert segments() <= before


@pytest.mark.parametrize("action", ["exit-first", "raise-first"])
def test_rank_that_is_gone_before_the_ranks_meet_ends_the_job_at_once(
    tmp_path: Path, action: str
) -> None:
    ended = run_ranks(3, summing(tmp_path, 3), action)
    assert ended.seconds_after(action) < AT_ONCE
    assert ended.status != 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("action", "said"),
    [
        (
            "stop-first",
            f"in the start of MPI until {SOON} s after the first rank's entry: rank 2 never "
            "entered it (it is",
        ),
        (
            "stop",
            f"(AllReduce of node 'sum_y') until {SOON} s after the first rank's entry: rank 2 "
            "never entered it (it",
        ),
    ],
)
def test_rank_that_is_stopped_ends_the_job_at_the_deadline(
    tmp_path: Path, action: str, said: str
) -> None:
    ended = run_ranks(3, summing(tmp_path, 3), action, RANKMESH_COLLECTIVE_TIMEOUT=f"{SOON}")
    assert ended.seconds_after(action) < SOON + AT_ONCE
    assert ended.status != 0
    (last,) = ended.last_words()
    assert said in last


def test_busy_rank_shows_where_it_is(tmp_path: Path) -> None:
    ended = run_ranks(2, with_a_busy_rank(tmp_path), RANKMESH_COLLECTIVE_TIMEOUT=f"{SOON}")
    (last,) = ended.last_words()
    assert "rank 1 never entered it" in last
    assert "rank 1 is in:\n" in ended.text and "in predict" in ended.text
    assert ended.text.index("in predict") < ended.text.index(last)


def test_rank_with_another_model_is_named(tmp_path: Path) -> None:
    pattern = summing(tmp_path)
    write_shard(tmp_path / "sum1.onnx", [all_reduce("x", "d"), all_reduce("d", "y")])
    ended = run_ranks(2, pattern)
    assert ended.status == 3, ended.text
    (last,) = ended.last_words()
    assert "raised ShardMismatch" in last and "sum1.onnx" in last and "rank 1" in last


def test_ranks_of_several_hosts_meet(tmp_path: Path) -> None:
    with TemporaryDirectory() as folder:
        ended = run_ranks(3, summing(tmp_path, 3), "apart", XDG_RUNTIME_DIR=folder)
    assert ended.status == 0, ended.text
    for rank in range(3):
        assert f"rank {rank}: [12.0, 12.0, 12.0, 12.0]" in ended.text


@pytest.mark.slow
def test_rank_of_another_host_that_is_stopped_ends_the_job_at_the_deadline(tmp_path: Path) -> None:
    with TemporaryDirectory() as folder:
        ended = run_ranks(
            3,
            summing(tmp_path, 3),
            "stop",
            "apart",
            RANKMESH_COLLECTIVE_TIMEOUT=f"{SOON}",
            XDG_RUNTIME_DIR=folder,
            OMPI_MCA_pml="ob1",
            OMPI_MCA_btl="self,sm",
        )  # with all transports, MPI itself takes a second to start
    assert ended.seconds_after("stop") < SOON + AT_ONCE
    assert ended.status != 0
    assert any(
        "what ranks [1, 2] do" in line or "what ranks [0, 2] do" in line
        for line in ended.last_words()
    )


@pytest.mark.alone
def test_mpi_that_contradicts_the_environment(tmp_path: Path) -> None:
    """As under the mpirun of another MPI: each process is alone to its own."""
    mpirun()
    pattern, shared = summing(tmp_path), "/dev/shm"
    before = set(os.listdir(shared))
    variables = {"PMI_SIZE": "2", "MPI_LOCALNRANKS": "2"}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), pattern],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **variables, "PMI_RANK": str(r), "MPI_LOCALRANKID": str(r)},
        )
        for r in range(2)
    ]
    errors = [process.communicate(timeout=250)[1] for process in ranks]
    for name in (
        set(os.listdir(shared)) - before
    ):  # Open MPI leaves one wherever mpirun did not start it
        if name.startswith("sm_segment"):
            os.unlink(os.path.join(shared, name))
    assert "PMI_RANK=1, PMI_SIZE=2" in errors[1]
    assert "says rank 1 of 2, and MPI itself says rank 0 of 1" in errors[1]
    assert all(process.returncode != 0 for process in ranks)
