"""`rankmesh env`: who this process is, and why."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from launched import launch, script
from processes import COMMAND, rankmesh

from rankmesh.launch.commands.env import SETTINGS, describe_environment

ROOT = Path(__file__).parents[3]
BETWEEN_PROCESSES = {"RANKMESH_CHANNEL", "RANKMESH_HOSTS", "RANKMESH_JOB"}
SLURM = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "1",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "0",
    "SLURM_STEP_TASKS_PER_NODE": "2",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}


def described(monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]) -> list[str]:
    for name, text in environ.items():
        monkeypatch.setenv(name, text)
    return describe_environment()


def test_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = described(monkeypatch, {"CUDA_VISIBLE_DEVICES": "1"})
    assert "rank 0 of 1" in lines[0] and "no launcher was detected" in lines[0]
    assert "  CUDA_VISIBLE_DEVICES=1  (the user or rankmesh launch)" in lines


def test_winner_and_loser_with_their_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = described(monkeypatch, {**SLURM, **OPEN_MPI})
    assert lines[0].startswith("rank 3 of 4, local rank 1 of 2, on ") and lines[0].endswith(
        ": by Open MPI"
    )
    assert lines[1].startswith(
        "  Open MPI: rank 3 of 4 (won: the innermost launcher); from OMPI_COMM_WORLD_RANK=3, "
    )
    assert lines[2].startswith(
        "  Slurm: rank 1 of 2 (ignored: Open MPI is further in); from SLURM_PROCID=1, "
    )
    for name, text in OPEN_MPI.items():
        assert f"  {name}={text}  (Open MPI, read)" in lines
    assert "  SLURM_PROCID=1  (Slurm, read)" in lines and "  SLURM_JOB_ID=7  (Slurm)" in lines


@pytest.mark.parametrize(
    "environ, reason",
    [
        (
            {**SLURM, "SLURM_STEP_ID": "4294967291"},
            "Slurm: ignored, .* SLURM_STEP_ID is 4294967291 and .*TASKS 2",
        ),
        (
            {**SLURM, "SLURM_STEP_NUM_TASKS": "1"},
            "Slurm: ignored, .* SLURM_STEP_ID is 0 and .*TASKS 1",
        ),
        ({"PMI_RANK": "0"}, "PMI: ignored, as srun sets PMI_RANK"),
        (
            {"RANK": "0", "WORLD_SIZE": "2"},
            "RANK and WORLD_SIZE: ignored, as torchrun sets TORCHELASTIC_RUN_ID too",
        ),
    ],
)
def test_what_looks_like_a_launcher_and_is_none(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], reason: str
) -> None:
    lines = described(monkeypatch, environ)
    assert lines[0].endswith(": no launcher was detected, so it is alone")
    assert re.match(f"  {reason}", lines[1])


def test_contradiction_is_told_with_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = described(monkeypatch, {**OPEN_MPI, "OMPI_COMM_WORLD_RANK": "4"})
    assert lines[0].startswith("no rank: the variables of Open MPI contradict each other: rank 4")
    assert "  OMPI_COMM_WORLD_RANK=4  (Open MPI)" in lines


def test_command() -> None:
    done = rankmesh("env", **SLURM)
    assert done.returncode == 0 and done.stdout.startswith("rank 1 of 2, ") and not done.stderr


def test_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = {"RANKMESH_KEY": "00ff", "RANKMESH_TOKEN": "a-token-of-tests"}
    lines = described(monkeypatch, {**secrets, "RANKMESH_PROGRESS": "0"})
    settings = lines[lines.index("settings:") + 1 :]
    assert [line.split()[0] for line in settings] == list(SETTINGS)
    assert any(line.startswith("  RANKMESH_PROGRESS = 0  (") for line in settings)
    for name, secret in secrets.items():
        assert any(line.startswith(f"  {name} is set  (") for line in settings)
        assert secret not in "".join(lines)


def test_every_variable_that_is_read_is_a_setting() -> None:
    folders = ("comm", "compiler", "launch", "orchestrator", "worker")
    sources = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    read = {
        name
        for path in sources
        for name in re.findall(r"\bRANKMESH_[A-Z_]*[A-Z]\b", path.read_text())
    }
    assert read - BETWEEN_PROCESSES == set(SETTINGS), "see launch.commands.env.py"


def test_inside_a_launch(tmp_path: Path) -> None:
    """A rank, and a process that it starts, which inherits the variables alone."""
    path = script(
        tmp_path,
        f"""
        import subprocess, sys
        from rankmesh.launch.commands.env import describe_environment
        print(describe_environment()[0])
        sys.stdout.write(subprocess.run({[*COMMAND, "env"]}, capture_output=True, text=True).stdout.splitlines()[0])
    """,  # noqa: E501
    )
    lines = launch("--ranks", 2, path)[1].splitlines()
    assert len(lines) == 4 and all(": by rankmesh launch" in line for line in lines)
    for rank in (0, 1):
        assert (
            len([line for line in lines if line.startswith(f"[rank {rank}] rank {rank} of 2, ")])
            == 2
        )
