from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from rankmesh.comm.errors import UsageError
from rankmesh.comm.job import environment as inherited
from rankmesh.comm.job.identity import detect, detected_rank, single_rank

pytestmark = pytest.mark.pure

OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "8",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "PMIX_NAMESPACE": "prterun-host-12@1",
    "PMIX_RANK": "3",
}
MPICH = {
    "PMI_RANK": "1",
    "PMI_SIZE": "2",
    "MPI_LOCALRANKID": "1",
    "MPI_LOCALNRANKS": "2",
    "PMI_FD": "9",
}
TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "none",
    "RANK": "1",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "localhost",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RESTART_COUNT": "0",
}
SLURM = {
    "SLURM_JOB_ID": "77",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "5",
    "SLURM_STEP_NUM_TASKS": "6",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_STEP_TASKS_PER_NODE": "4,2",
    "SLURM_NTASKS": "6",
}
SLURM_BATCH = {
    "SLURM_JOB_ID": "77",
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0",
    "SLURM_NTASKS": "4",
    "SLURM_TASKS_PER_NODE": "4",
}
LAUNCH = {"RANK": "2", "WORLD_SIZE": "4", "LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "4"}


@pytest.fixture
def channel() -> Iterator[dict[str, str]]:
    """The variable of a rank whose descriptors are open."""
    descriptors = [os.open(os.devnull, os.O_RDONLY), os.memfd_create("arena")]
    yield {inherited.CHANNEL_VARIABLE: inherited.described(*descriptors)}
    for descriptor in descriptors:
        os.close(descriptor)


def numbers(environ: dict[str, str]) -> tuple[str, int, int, int, int]:
    identity = detect(environ)
    rank = identity.rank
    return identity.launcher, rank.rank, rank.world_size, rank.local_rank, rank.local_size


@pytest.mark.parametrize(
    "environ, expected",
    [
        (OPEN_MPI, ("Open MPI", 3, 8, 1, 2)),
        (MPICH, ("MPICH", 1, 2, 1, 2)),
        (TORCHRUN, ("torchrun", 1, 4, 1, 2)),
        (SLURM, ("Slurm", 5, 6, 1, 2)),
        (
            {**SLURM, "SLURM_STEP_TASKS_PER_NODE": "2(x3)", "SLURM_NODEID": "2"},
            ("Slurm", 5, 6, 1, 2),
        ),
        (
            {"SLURM_STEPID": "3", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"},
            ("Slurm", 1, 2, 1, 2),
        ),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, ("MPICH", 1, 2, 1, 2)),
        ({}, ("", 0, 1, 0, 1)),
        ({"RANK": "1", "WORLD_SIZE": "2"}, ("", 0, 1, 0, 1)),  # anybody may have set those
    ],
    ids=lambda value: value[0] or "alone" if isinstance(value, tuple) else "",
)
def test_each_launcher(environ: dict[str, str], expected: tuple[str, int, int, int, int]) -> None:
    assert numbers(environ) == expected


def test_device_is_the_local_rank() -> None:
    assert detect(OPEN_MPI).rank.device == 1


@pytest.mark.parametrize(
    "environ",
    [
        SLURM_BATCH,
        {
            **SLURM_BATCH,
            "SLURM_STEP_ID": str(2**32 - 5),
            "SLURM_STEP_NUM_TASKS": "4",
        },  # batch script
        {
            **SLURM_BATCH,
            "SLURM_STEP_ID": str(2**32 - 6),
            "SLURM_STEP_NUM_TASKS": "4",
        },  # interactive step
        {**SLURM, "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"},  # srun --pty bash
    ],
)
def test_shell_of_slurm_is_no_rank(environ: dict[str, str]) -> None:
    assert numbers(environ) == ("", 0, 1, 0, 1)


def test_srun_that_speaks_pmi_is_slurm() -> None:
    assert numbers({**SLURM, "PMI_RANK": "5", "PMI_SIZE": "6"}) == ("Slurm", 5, 6, 1, 2)


@pytest.mark.parametrize(
    "outer, inner, launcher",
    [
        (SLURM_BATCH, OPEN_MPI, "Open MPI"),
        (SLURM, MPICH, "MPICH"),
        (SLURM, TORCHRUN, "torchrun"),
        (TORCHRUN, OPEN_MPI, "Open MPI"),
    ],
)
def test_innermost_launcher_wins(
    outer: dict[str, str], inner: dict[str, str], launcher: str
) -> None:
    assert detect({**outer, **inner}).launcher == launcher


@pytest.mark.parametrize("outer", [OPEN_MPI, MPICH, TORCHRUN, SLURM])
def test_rank_of_ours_is_one_whatever_is_around_it(
    channel: dict[str, str], outer: dict[str, str]
) -> None:
    assert numbers({**outer, **LAUNCH, **channel}) == ("rankmesh launch", 2, 4, 2, 4)


def test_grandchild_of_ours_keeps_its_rank() -> None:
    """It has the variables, and none of the descriptors; the arena's inode is what all ranks have
    in common.
    """
    stale = {**LAUNCH, inherited.CHANNEL_VARIABLE: "900.1:901.777"}
    assert numbers(stale) == ("rankmesh launch", 2, 4, 2, 4)
    other_rank = {
        **stale,
        "RANK": "1",
        "LOCAL_RANK": "1",
        inherited.CHANNEL_VARIABLE: "905.2:901.777",
    }
    assert detect(stale).job == detect(other_rank).job
    assert detect(stale).job != detect({**stale, inherited.CHANNEL_VARIABLE: "900.1:901.778"}).job


@pytest.mark.parametrize("inner, launcher", [(OPEN_MPI, "Open MPI"), (TORCHRUN, "torchrun")])
def test_launcher_that_a_rank_of_ours_started_is_further_in(
    inner: dict[str, str], launcher: str
) -> None:
    assert (
        detect({**LAUNCH, inherited.CHANNEL_VARIABLE: "900.1:901.777", **inner}).launcher
        == launcher
    )


def test_every_mark_is_told() -> None:
    identity = detect({**SLURM, **OPEN_MPI})
    assert [mark.launcher for mark in identity.marks] == ["Open MPI", "Slurm"]
    assert identity.marks[1].variables == {
        name: SLURM[name]
        for name in (
            "SLURM_PROCID",
            "SLURM_STEP_NUM_TASKS",
            "SLURM_LOCALID",
            "SLURM_STEP_TASKS_PER_NODE",
        )
    }


@pytest.mark.parametrize("environ", [OPEN_MPI, TORCHRUN, SLURM])
def test_job_is_the_same_for_all_its_ranks_and_for_no_other(environ: dict[str, str]) -> None:
    other_rank = {
        **environ,
        "OMPI_COMM_WORLD_RANK": "0",
        "RANK": "0",
        "SLURM_PROCID": "4",
        "SLURM_LOCALID": "0",
    }
    assert detect(environ).job == detect(other_rank).job != ""
    other_job = {**environ, "PMIX_NAMESPACE": "x", "MASTER_PORT": "1", "SLURM_STEP_ID": "1"}
    assert detect(environ).job != detect(other_job).job


@pytest.mark.parametrize(
    "environ, message",
    [
        (
            {**OPEN_MPI, "OMPI_COMM_WORLD_RANK": "8"},
            "Open MPI contradict each other: rank 8 is outside a world of 8",
        ),
        ({**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_RANK": "2"}, "local rank 2 of 2 does not fit"),
        (
            {**TORCHRUN, "WORLD_SIZE": "many"},
            "WORLD_SIZE='many', which torchrun sets, is no number",
        ),
        ({**TORCHRUN, "RANK": "-1"}, "RANK='-1'"),
        ({**TORCHRUN, "RANK": "²"}, "is no number"),
        ({**SLURM, "SLURM_NODEID": ""}, "SLURM_NODEID='', which Slurm sets"),
    ],
)
def test_variables_that_contradict_each_other(environ: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        detect(environ)


def test_own_environment_is_read_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in MPICH.items():
        monkeypatch.setenv(name, text)
    assert detected_rank().rank == 1
    assert single_rank().rank == 0 and single_rank().world_size == 1
