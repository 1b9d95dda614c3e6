"""Ranks that die, hang, never come, and supervisors that are stopped: an error that names them, and
nothing left.
"""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from processes import COMMAND, Running, rankmesh, wait_until
from shards import all_reduce, summing, with_a_busy_rank, write_shard


def test_killed_rank_is_named_and_the_others_end(tmp_path: Path) -> None:
    with Running(with_a_busy_rank(tmp_path, 3)) as run:
        run.wait_inside_collective(0)
        run.rank(2).kill()
        killed = time.monotonic()
        status, errors = run.end()
    assert time.monotonic() - killed < 50  # of the 60 that they wait
    assert status == 4
    assert "rank 2 of 3" in errors and "was killed by SIGKILL" in errors and "RUNNING" in errors


def test_rank_killed_while_starting_is_named(tmp_path: Path) -> None:
    with Running(summing(tmp_path)) as run:
        run.rank(1).kill()
        status, errors = run.end()
    assert status == 4
    assert "rank 1 of 2" in errors and "SIGKILL" in errors


def test_rank_that_never_arrives_is_named_with_its_stage(tmp_path: Path) -> None:
    with Running(summing(tmp_path), RANKMESH_COLLECTIVE_TIMEOUT="1") as run:
        run.rank(1).suspend()
        status, errors = run.end()
    assert status == 4
    assert "rank 1 did not arrive within 1 s" in errors and "STARTING" in errors
    assert "RANKMESH_COLLECTIVE_TIMEOUT" in errors


def test_rank_that_never_enters_a_collective_is_named_with_its_stack(tmp_path: Path) -> None:
    with Running(with_a_busy_rank(tmp_path), RANKMESH_COLLECTIVE_TIMEOUT="6") as run:
        status, errors = run.end()
    assert status == 4
    assert "rank 1" in errors and "AllReduce" in errors and "sum_y" in errors
    assert "in predict" in errors  # where the busy rank was


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_all_ranks(tmp_path: Path, number: signal.Signals) -> None:
    with Running(with_a_busy_rank(tmp_path)) as run:
        run.wait_inside_collective(0)
        run.process.send_signal(number)
        status, errors = run.end()
    assert status == 128 + number
    assert f"stopped by {number.name}" in errors and "Traceback" not in errors


def test_ranks_die_with_their_supervisor(tmp_path: Path) -> None:
    with Running(with_a_busy_rank(tmp_path)) as run:
        run.wait_inside_collective(0)
        assert len(run.ranks()) == 2
        run.process.kill()
        wait_until(lambda: not run.ranks(), "the ranks to die")


def test_failing_node_is_named_with_its_rank(tmp_path: Path) -> None:
    pattern = summing(tmp_path)
    shape = {"shape": np.array([3, 5], np.int64)}
    write_shard(
        tmp_path / "sum1.onnx",
        [
            helper.make_node("Shape", ["x"], ["s"]),
            helper.make_node("Add", ["s", "shape_offset"], ["t"]),
            helper.make_node("Reshape", ["x", "t"], ["d"], name="bad_reshape"),
            all_reduce("d", "y"),
        ],
        {"shape_offset": np.array([1], np.int64), **shape},
    )
    done = rankmesh("run", pattern)
    assert done.returncode == 4, done.stderr
    assert (
        "rank 1" in done.stderr and "bad_reshape" in done.stderr and "Traceback" not in done.stderr
    )


def test_output_pipe_that_closes_is_no_crash(tmp_path: Path) -> None:
    command = f"{' '.join(COMMAND)} run '{summing(tmp_path)}' 2>&1 | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=250)
    assert "Traceback" not in done.stdout + done.stderr
