"""`rankmesh launch --launcher mpirun`: the command for each MPI, and ranks that a real mpirun
starts.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from launched import Launched, launch, script
from mpirun import mpirun

import rankmesh
from rankmesh.comm.errors import UsageError
from rankmesh.launch.launchers.mpirun_launcher import (
    MPICH,
    OPEN_MPI,
    Mpirun,
    find_mpirun,
    refuse_root,
)
from rankmesh.launch.supervision.host import cores, physical_cores

TABLES = Path(rankmesh.__file__).resolve().parent / "rank_tables"
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
SAYS_OPEN_MPI_5 = (
    "mpirun (Open MPI) 5.0.11\n\nReport bugs to https://www.open-mpi.org/community/help/"
)
SAYS_OPEN_MPI_4 = "mpirun (Open MPI) 4.1.6"
SAYS_MPICH = (
    "HYDRA build details:\n    Version:                                 4.2.1\n    "
    "Release Date: today"
)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], str]:
    """Put an mpirun that says some version into a folder, `path` or `beside` Python; no other one
    is found.
    """
    for folder in ("path", "beside"):
        (tmp_path / folder).mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "beside" / "python"))

    def install(folder: str, says: str) -> str:
        program = tmp_path / folder / "mpirun"
        program.write_text(f"#!/bin/sh\necho '{says}'\n")
        program.chmod(0o755)
        return str(program)

    return install


@pytest.mark.parametrize(
    "says, kind, major",
    [(SAYS_OPEN_MPI_5, OPEN_MPI, 5), (SAYS_OPEN_MPI_4, OPEN_MPI, 4), (SAYS_MPICH, MPICH, 4)],
)
def test_installed_mpi_is_recognised(
    install: Callable[[str, str], str], says: str, kind: str, major: int
) -> None:
    path = install("path", says)
    assert find_mpirun() == Mpirun(path, kind, major)


def test_mpirun_beside_python_comes_first(install: Callable[[str, str], str]) -> None:
    install("path", SAYS_MPICH)
    path = install("beside", SAYS_OPEN_MPI_5)
    assert find_mpirun().path == path


def test_unknown_mpirun(install: Callable[[str, str], str]) -> None:
    install("path", "Some MPI 1.0")
    with pytest.raises(
        UsageError, match="neither Open MPI nor MPICH; it says 'Some MPI 1.0.*mpirun -n N"
    ):
        find_mpirun()


@pytest.mark.usefixtures("install")
def test_no_mpirun() -> None:
    with pytest.raises(
        UsageError, match=r"mpirun is not installed: `pip install 'rankmesh\[mpi\]'`"
    ):
        find_mpirun()


@pytest.mark.parametrize(
    "mpirun, ranks, expected",
    [
        (Mpirun("mpirun", OPEN_MPI, 5), 4, "mpirun --output tag -n 4 python x"),
        (
            Mpirun("mpirun", OPEN_MPI, 5),
            5,
            "mpirun --output tag --oversubscribe --bind-to none -n 5 python x",
        ),
        (Mpirun("mpirun", OPEN_MPI, 4), 4, "mpirun --tag-output -n 4 python x"),
        (Mpirun("/usr/bin/mpirun", MPICH, 4), 5, "/usr/bin/mpirun -prepend-rank -n 5 python x"),
    ],
)
def test_command(mpirun: Mpirun, ranks: int, expected: str) -> None:
    assert mpirun.command(ranks, 4, ["python", "x"]) == expected.split()


def test_only_open_mpi_refuses_root() -> None:
    refuse_root(MPICH, 0, {})
    refuse_root(OPEN_MPI, 1000, {})
    refuse_root(OPEN_MPI, 0, AS_ROOT)
    with pytest.raises(UsageError, match="does not start ranks as root.*OMPI_ALLOW_RUN_AS_ROOT=1"):
        refuse_root(OPEN_MPI, 0, {"OMPI_ALLOW_RUN_AS_ROOT": "1"})


def test_cores_are_counted_without_hardware_threads() -> None:
    assert 1 <= physical_cores() <= len(cores())


REPORT = """
    import os, sys
    print(sys.argv[1:], os.environ["RANK"], os.environ["DEVICE_ID"], os.environ["CUDA_VISIBLE_DEVICES"],
          os.environ.get("RANK_TABLE_FILE"), repr(sys.stdin.read()))
"""  # noqa: E501


def start(*arguments: object) -> tuple[int, str, str]:
    """`rankmesh launch --launcher mpirun` with a real one, as whoever runs the tests."""
    mpirun()
    return launch("--launcher", "mpirun", *arguments, **AS_ROOT)


def test_ranks_of_a_real_mpirun(tmp_path: Path) -> None:
    status, out, errors = start(
        "--ranks", 2, script(tmp_path, REPORT), "--x={rank}", "{world_size}"
    )
    assert status == 0, errors
    for rank in (0, 1):
        assert f"['--x={rank}', '2'] {rank} {rank} 0,1 None ''" in out


FAILS = """
    import os, sys, time
    from pathlib import Path
    there = Path(sys.argv[1])
    if os.environ["RANK"] == "0":
        there.touch()
        time.sleep(600)  # mpirun ends it
    while not there.exists():
        time.sleep(0.01)
    raise SystemExit(6)
"""


def test_exit_status_is_that_of_the_rank_that_fails(tmp_path: Path) -> None:
    status, out, errors = start("--ranks", 2, script(tmp_path, FAILS), tmp_path / "there")
    assert status == 6, out + errors


def test_each_rank_has_a_log_file(tmp_path: Path) -> None:
    path = script(
        tmp_path, "import os, sys; print('out', os.environ['RANK']); print('err', file=sys.stderr)"
    )
    status, out, errors = start("--ranks", 2, "--log-dir", tmp_path / "logs", path)
    assert status == 0, errors
    for rank in (0, 1):
        assert f"out {rank}" in out
        written = (tmp_path / "logs" / f"rank_{rank}.log").read_text()
        assert sorted(written.splitlines()) == ["err", f"out {rank}"]
    assert errors.count("err\n") == 2


def test_ranks_of_a_rank_table(tmp_path: Path) -> None:
    table = TABLES / "hccl_2p_45_10.20.30.41.json"
    _, out, _ = start("--rank-table", os.path.relpath(table), script(tmp_path, REPORT), "{device}")
    for rank in (0, 1):
        assert f"['{4 + rank}'] {rank} {4 + rank} 4,5 {table} ''" in out


def test_slots_are_explained(tmp_path: Path) -> None:
    ranks = physical_cores() + 1
    status, out, errors = start("--ranks", ranks, script(tmp_path, "print('here')"))
    assert status == 0 and out.count("here") == ranks
    assert f"{ranks} ranks on {ranks - 1} cores, which Open MPI calls slots" in errors


def test_term_ends_mpirun_and_its_ranks(tmp_path: Path) -> None:
    mpirun()
    path = script(
        tmp_path, "import os, time; print('pid', os.getpid(), flush=True); time.sleep(60)"
    )
    with Launched("--launcher", "mpirun", "--ranks", 2, path, **AS_ROOT) as launched:
        launched.wait_for_ranks(2)
        launched.process.send_signal(signal.SIGTERM)
        assert launched.end()[0] != 0


def test_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path, REPORT)
    monkeypatch.chdir(tmp_path)
    assert "['0'] 0 0 0 None ''" in start("--ranks", 1, "-m", "main", "{rank}")[1]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is refused")
def test_root_is_told_what_to_do(tmp_path: Path) -> None:
    mpirun()
    if find_mpirun().kind != OPEN_MPI:
        pytest.skip("only Open MPI refuses root")
    path = script(tmp_path, "print('started')")
    status, out, errors = launch(
        "--launcher", "mpirun", "--ranks", 1, path, OMPI_ALLOW_RUN_AS_ROOT=""
    )
    assert (status, out) == (2, "") and "Open MPI does not start ranks as root" in errors


def test_ranks_die_with_an_mpirun_that_is_killed(tmp_path: Path) -> None:
    mpirun()
    path = script(
        tmp_path,
        """
        import os, time
        print("pid", os.getpid(), flush=True)
        time.sleep(60)
    """,
    )
    with Launched("--launcher", "mpirun", "--ranks", 2, path, **AS_ROOT) as launched:
        launched.wait_for_ranks(2)
        launched.stop(signal.SIGKILL)
        launched.end()
