"""Results on a full disk: one sentence, the exit code 3, and nothing is left."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from processes import rankmesh
from shards import summing
from small_disk import fill, small_disk


@pytest.mark.parametrize("name", ["out.npz", "out{rank}.npz"])
def test_results_that_a_disk_does_not_take(tmp_path: Path, name: str) -> None:
    with small_disk(tmp_path / "disk") as disk:
        fill(disk)
        done = rankmesh("run", summing(tmp_path), "--save", disk / name)
        left = os.listdir(disk)
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 3 and left == ["filler"]
    assert "cannot be written: No space left on device" in last and "Traceback" not in done.stderr
