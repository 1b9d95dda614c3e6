"""`rankmesh run` on every distributed model that MindSpore sliced: one process per rank,
MindSpore's results.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from processes import rankmesh

CORPUS = Path(__file__).parents[1] / "data" / "mindir"
DISTRIBUTED = sorted(path.name for path in CORPUS.glob("dist_*"))


@pytest.mark.parametrize("name", DISTRIBUTED)
def test_distributed_model(name: str) -> None:
    folder = CORPUS / name
    whole = folder / f"{name}.npz"
    npz = whole if whole.exists() else folder / f"{name}_rank{{rank}}.npz"
    done = rankmesh("run", folder / f"{name}_rank{{rank}}.mindir", "--inputs", npz, "--expect", npz)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("OK: ")


def test_the_corpus_is_there() -> None:
    assert len(DISTRIBUTED) == 24


def test_stage_without_result_is_shown_as_a_dash() -> None:
    folder = CORPUS / "dist_pipeline_2"
    done = rankmesh(
        "run",
        folder / "dist_pipeline_2_rank.mindir",
        "--inputs",
        folder / "dist_pipeline_2.npz",
        "--expect",
        folder / "dist_pipeline_2.npz",
    )
    assert "OK: 1 output of 1 rank matches" in done.stdout
    assert "│ 0    │ output_0 │ -" in done.stdout


def test_shards_in_the_wrong_order(tmp_path: Path) -> None:
    """Rank lists, Send and Receive, recorded positions: whatever a file tells is compared."""
    for name, ranks in (
        ("dist_dp_tp_mlp_4", 4),
        ("dist_op_sendrecv", 2),
        ("dist_op_collectivegather", 2),
    ):
        for rank in range(ranks):
            target = CORPUS / name / f"{name}_rank{ranks - 1 - rank}.mindir"
            (tmp_path / f"{name}{rank}.mindir").symlink_to(target)
    for name, phrase in (
        ("dist_dp_tp_mlp_4", "another rank's shard"),
        ("dist_op_sendrecv", "needs its Receive"),
        ("dist_op_collectivegather", "but was written for member"),
    ):
        done = rankmesh("run", tmp_path / f"{name}.mindir")
        assert done.returncode == 3, done.stdout + done.stderr
        assert phrase in done.stderr, done.stderr


def test_outputs_are_printed_as_the_documents_promise() -> None:
    folder = CORPUS / "dist_tp_mlp_2"
    done = rankmesh("run", folder / "dist_tp_mlp_2_rank.mindir")
    lines = done.stdout.splitlines()
    promised = [line for line in lines if line.startswith("tensor's name is:")]
    assert len(promised) == 2 and promised[0].endswith("data size is:256 tensor elements num is:64")
    values = [line for line in lines if line.startswith("output data is: ")]
    assert all(len(line.split()) == 3 + 10 for line in values)
