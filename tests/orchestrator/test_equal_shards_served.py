"""One shard on all ranks of a group: an orchestrator does not start, unless it is told that this is
meant.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from mindir_models import DATA

from rankmesh import Orchestrator
from rankmesh.comm.errors import ShardMismatch

SHARD = DATA / "dist_tp_mlp_2" / "dist_tp_mlp_2_rank0.mindir"
SAYS = r"dup0.mindir \(rank 0\) and .*dup1.mindir \(rank 1\) are equal shards"


@pytest.fixture
def pattern(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Two files with the same shard; the model cache is the test's."""
    monkeypatch.setenv("RANKMESH_CACHE", str(tmp_path / "cache"))
    for rank in range(2):
        shutil.copy(SHARD, tmp_path / f"dup{rank}.mindir")
    return str(tmp_path / "dup{rank}.mindir")


def test_equal_files(pattern: str) -> None:
    with pytest.raises(ShardMismatch, match=SAYS):
        Orchestrator(pattern)


def test_meant(pattern: str, tmp_path: Path) -> None:
    x = {"x": np.ones((4, 16), np.float32)}
    with Orchestrator(pattern, allow_equal_shards=True) as one:
        expected = one.predict(x)
    with pytest.raises(ShardMismatch, match=SAYS):  # also from the model cache
        Orchestrator(pattern)
    (tmp_path / "one.yaml").write_text(f"models:\n- path: {pattern}\n  allow_equal_shards: true\n")
    with Orchestrator(config=str(tmp_path / "one.yaml")) as one:
        for name, array in one.predict(x).items():
            np.testing.assert_array_equal(array, expected[name])
