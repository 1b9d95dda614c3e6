"""`rankmesh run` in processes that another launcher started: each is one of that launcher's
ranks."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from launched import launch
from mpirun import mpirun
from processes import COMMAND, rankmesh, segments

import rankmesh as package

SAMPLE = Path(package.__file__).resolve().parent / "launch" / "sample"
MODEL = [
    SAMPLE / "Matmul.mindir",
    "--inputs",
    SAMPLE / "Matmul.npz",
    "--expect",
    SAMPLE / "Matmul.npz",
]
MODULE = ["-m", "rankmesh", "run", *map(str, MODEL)]
TIMEOUT = 60


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The runtime folder, in which and in /dev/shm nothing may be left."""
    before = segments()
    with tempfile.TemporaryDirectory(prefix="rm") as path:
        monkeypatch.setenv("XDG_RUNTIME_DIR", path)
        yield Path(path)
        assert [name for found in Path(path).iterdir() for name in os.listdir(found)] == []
    assert segments() <= before


def check(out: str, ranks: int = 2) -> None:
    """Rank 0 has printed the outputs of all ranks and the verdict; nobody else has."""
    for rank in range(ranks):
        assert out.count(f"rank {rank} (") == 1
    assert out.count("tensor elements num is:64") == ranks
    assert out.count(f"OK: {ranks} outputs of {ranks} ranks match") == 1, out


def srun(ranks: int, *arguments: str) -> list[tuple[int, str, str]]:
    """What srun does: one process per task, with Slurm's variables."""
    started = [
        subprocess.Popen(
            [*COMMAND, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            stdin=subprocess.DEVNULL,
            env={
                **os.environ,
                "SLURM_JOB_ID": "71",
                "SLURM_STEP_ID": "0",
                "SLURM_PROCID": str(rank),
                "SLURM_STEP_NUM_TASKS": str(ranks),
                "SLURM_LOCALID": str(rank),
                "SLURM_NODEID": "0",
                "SLURM_STEP_TASKS_PER_NODE": str(ranks),
                "PMI_RANK": str(rank),
                "PMI_SIZE": str(ranks),
            },
        )
        for rank in range(ranks)
    ]
    return [
        (process.returncode, *found)
        for process in started
        if (found := process.communicate(timeout=TIMEOUT))
    ]


def test_srun() -> None:
    (first, out, errors), (second, nothing, silence) = srun(2, "run", "-v", *map(str, MODEL))
    assert (first, second) == (0, 0), errors
    check(out)
    assert (
        errors.startswith("rankmesh: 2 ranks by Slurm, device ")
        and "; collectives shared_memory (" in errors
    )
    assert (nothing, silence) == ("", "")


def test_srun_itself() -> None:
    if (
        shutil.which("srun") is None
        or subprocess.run(["sinfo"], capture_output=True, timeout=TIMEOUT).returncode
    ):
        pytest.skip(
            "there is no Slurm here, or no controller answers: only its variables are tested"
        )
    done = subprocess.run(
        ["srun", "-n", "2", "--overcommit", sys.executable, *MODULE],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    check(done.stdout)


def test_torchrun() -> None:
    pytest.importorskip("torch")
    with socket.create_server(
        ("localhost", 0)
    ) as free:  # two test runs at once must not share torchrun's port
        port = free.getsockname()[1]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--nproc-per-node",
            "2",
            "--master-port",
            str(port),
            *MODULE,
        ],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    check(done.stdout)


def test_rankmesh_launch() -> None:
    status, out, errors = launch("--ranks", 2, *MODULE)
    assert status == 0, errors
    check("\n".join(line.removeprefix("[rank 0] ") for line in out.splitlines()))


def test_mpirun() -> None:
    done = subprocess.run(
        [mpirun(), "-n", "2", sys.executable, *MODULE],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        stdin=subprocess.DEVNULL,
        env={
            **os.environ,
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        },
    )
    assert done.returncode == 0, done.stderr
    check(done.stdout)


def test_ranks_that_contradict_the_launcher() -> None:
    for status, out, errors in srun(2, "run", *map(str, MODEL), "--ranks", "3"):
        assert (status, out) == (2, "")
        assert (
            "--ranks 3 contradicts Slurm, which started 2 ranks" in errors
            and "Traceback" not in errors
        )


def test_more_ranks_than_shards() -> None:
    for status, _, errors in srun(3, "run", *map(str, MODEL)):
        assert status == 3 and "Matmul2.mindir: no such file" in errors


def test_out_of_tolerance_is_every_ranks_status(tmp_path: Path) -> None:
    import numpy as np

    wrong = tmp_path / "wrong.npz"
    with np.load(SAMPLE / "Matmul.npz") as file:
        np.savez(
            wrong, **{name: array + 1 for name, array in file.items() if name.startswith("out_")}
        )
    (first, out, _), (second, _, _) = srun(2, "run", str(MODEL[0]), "--expect", str(wrong))
    assert (first, second) == (1, 1) and "FAILED: 2 of 2 outputs differ" in out


def test_launcher_of_one_process_is_none() -> None:
    done = rankmesh("run", *MODEL, OMPI_COMM_WORLD_RANK="0", OMPI_COMM_WORLD_SIZE="1")
    assert done.returncode == 0, done.stderr
    check(done.stdout)


def test_float64_is_told_by_every_rank_before_it_builds(tmp_path: Path) -> None:
    import numpy as np

    doubles = tmp_path / "doubles.npz"
    with np.load(SAMPLE / "Matmul.npz") as file:
        np.savez(doubles, **{name: array.astype(np.float64) for name, array in file.items()})
    for status, out, errors in srun(2, "run", str(MODEL[0]), "--inputs", str(doubles)):
        assert (status, out) == (3, "") and "in_0=in_0.astype(np.float32)" in errors
