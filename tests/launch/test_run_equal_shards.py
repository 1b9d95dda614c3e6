"""One shard on several ranks, by every way to start them: refused, unless it is meant."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from encrypted import KEY, encrypt_file
from launched import launch, script
from mpirun import run_ranks
from processes import rankmesh

DATA = Path(__file__).parents[1] / "data" / "mindir"
MLP = DATA / "dist_tp_mlp_2"
REFUSED = ["dist_hand_mlp", "dist_optshard_2", "dist_tp_llama_2", "dist_tp_mlp_4", "dist_while_2"]
"""Sums that a user wrote, gathered weights, a whole model, four ranks, and sums in a loop."""
PREDICT = """
    import sys
    import numpy as np
    import rankmesh as mslite
    try:
        model = mslite.Model()
        model.build_from_file(sys.argv[1], mslite.ModelType.MINDIR, mslite.Context())
        print("sum", model.predict([np.ones(t.shape, np.float32) for t in model.get_inputs()])[0].shape, flush=True)
    except RuntimeError as error:
        print("rankmesh:", error, flush=True)
        sys.exit(3)
"""  # noqa: E501


@pytest.fixture
def one_file(tmp_path: Path) -> Path:
    """A lone file, which every rank is given."""
    shutil.copy(MLP / "dist_tp_mlp_2_rank0.mindir", tmp_path / "Matmul0.mindir")
    return tmp_path / "Matmul0.mindir"


@pytest.mark.parametrize("name", REFUSED)
def test_the_first_shard_on_all_ranks(name: str) -> None:
    folder = DATA / name
    ranks = len(list(folder.glob("*_rank?.mindir")))
    done = rankmesh("run", folder / f"{name}_rank0.mindir", "--ranks", ranks)
    assert done.returncode == 3 and not done.stdout, done.stdout + done.stderr
    assert "are equal shards" in done.stderr and f"the same part {ranks} times" in done.stderr
    assert f"Did you mean {folder}/{name}_rank{{rank}}.mindir?" in done.stderr
    assert "--allow-equal-shards" in done.stderr


@pytest.mark.parametrize(
    "give", [shutil.copy, lambda old, new: new.symlink_to(old)], ids=["copies", "links"]
)
def test_equal_files(give: Callable[[Path, Path], object], one_file: Path, tmp_path: Path) -> None:
    for rank in range(2):
        give(one_file, tmp_path / f"dup_{rank}.mindir")
    done = rankmesh("run", tmp_path / "dup_{rank}.mindir")
    assert done.returncode == 3, done.stdout + done.stderr
    assert (
        f"{tmp_path}/dup_0.mindir (rank 0) and {tmp_path}/dup_1.mindir (rank 1) are equal shards"
        in done.stderr
    )
    assert "Give each rank its own shard." in done.stderr


def test_those_who_mean_it(one_file: Path) -> None:
    for arguments, environment in (
        (["--allow-equal-shards"], {}),
        ([], {"RANKMESH_ALLOW_EQUAL_SHARDS": "1"}),
    ):
        done = rankmesh("run", one_file, "--ranks", 2, *arguments, **environment)
        assert done.returncode == 0, done.stdout + done.stderr
    assert rankmesh("run", one_file, "--ranks", 2, RANKMESH_ALLOW_EQUAL_SHARDS="0").returncode == 3
    assert "RANKMESH_ALLOW_EQUAL_SHARDS" in rankmesh("env").stdout


def test_from_the_model_cache(one_file: Path, tmp_path: Path) -> None:
    """A build that was kept knows what its collectives are fed by."""
    cache, entries = str(tmp_path / "cache"), tmp_path / "cache" / "entries"
    for _ in range(5):  # a rank that finds another one at it may leave its build out
        assert (
            rankmesh(
                "run", one_file, "--ranks", 2, "--allow-equal-shards", RANKMESH_CACHE=cache
            ).returncode
            == 0
        )
        if len(list(entries.iterdir())) == 2:
            break
    assert len(list(entries.iterdir())) == 2
    done = rankmesh("run", one_file, "--ranks", 2, RANKMESH_CACHE=cache)
    assert done.returncode == 3 and "are equal shards" in done.stderr, done.stdout + done.stderr


def test_encrypted_shards(one_file: Path, tmp_path: Path) -> None:
    encrypt_file(one_file, tmp_path / "secret.mindir", "AES-CBC", 4096)
    done = rankmesh(
        "run",
        tmp_path / "secret.mindir",
        "--ranks",
        2,
        "--dec-mode",
        "AES-CBC",
        RANKMESH_KEY=KEY.hex(),
    )
    assert done.returncode == 3 and "are equal shards" in done.stderr, done.stdout + done.stderr


def test_rankmesh_launch(one_file: Path, tmp_path: Path) -> None:
    program = script(tmp_path, PREDICT)
    status, out, errors = launch("--ranks", 2, program, one_file)
    assert status == 3 and "are equal shards" in out, out + errors
    status, out, errors = launch("--ranks", 2, program, one_file, RANKMESH_ALLOW_EQUAL_SHARDS="1")
    assert status == 0 and "sum [4, 16]" in out, out + errors


def test_mpirun(one_file: Path, tmp_path: Path) -> None:
    program = script(tmp_path, PREDICT)
    ended = run_ranks(2, one_file, script=program)
    assert ended.status == 3 and "are equal shards" in ended.text, ended.text
    ended = run_ranks(2, one_file, script=program, RANKMESH_ALLOW_EQUAL_SHARDS="1")
    assert ended.status == 0 and "sum [4, 16]" in ended.text, ended.text
    program.write_text(
        "import sys\nfrom rankmesh.launch.cli import main\nsys.argv[1:1] = ['run']\nmain()\n"
    )
    ended = run_ranks(2, one_file, script=program)
    assert ended.status == 3 and "are equal shards" in ended.text, ended.text
