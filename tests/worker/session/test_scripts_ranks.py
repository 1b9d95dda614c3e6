"""Scripts whose models join the ranks of a launcher that is not ours, one process per rank, on one
host.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from launched import BUILD, script
from processes import segments, wait_until
from shards import all_reduce, summing, with_a_busy_rank, write_shard

TIMEOUT = 60
AT_ONCE = 40.0
"""A second on a machine of its own, and what a busy one may take: far less than the 60 that
collectives wait.
"""

SOON = 6
"""Seconds that ranks wait for each other where a test wants this to pass; enough for all to be
there before.
"""

MODEL = (
    BUILD
    + """
    mslite.Model(), mslite.Context()  # with all that they import
    while not os.path.exists(os.environ["GO"]):
        time.sleep(0.005)
    def build():
        model = mslite.Model()
        model.build_from_file(sys.argv[1], mslite.ModelType.MINDIR, mslite.Context())
        return model
    x = [np.ones(4, np.float32)]
"""
)
TWICE = (
    MODEL
    + """
    model = build()
    model.predict(x)
    if rank == VICTIM:
        print(time.time(), flush=True)
        ACTION
    model.predict(x)
"""
)


@pytest.fixture(autouse=True)
def leftovers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing may be left in the folder that the ranks meet in, and in /dev/shm."""
    before = segments()
    with tempfile.TemporaryDirectory(prefix="rm") as path:
        monkeypatch.setenv("XDG_RUNTIME_DIR", path)
        yield
        assert [name for found in Path(path).iterdir() for name in os.listdir(found)] == []
    assert segments() <= before


class Ended:
    """One rank's process that has ended."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.out, self.errors = process.communicate(timeout=TIMEOUT)
        self.status, self.at = process.returncode, time.time()


def run(path: Path, ranks: int, *arguments: str, **environment: str) -> list[Ended]:
    """Run a script as the ranks of a Slurm step, of which rank 0 comes first, and the others soon
    after it.

    With an environment of its own (a deadline), rank 1 is killed once all others have ended: it may
    be stopped.
    """
    for go in path.parent.glob("go*"):
        go.unlink()
    with ExitStack() as stack:

        def start(rank: int) -> subprocess.Popen[str]:
            process = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, str(path), *arguments],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    stdin=subprocess.DEVNULL,
                    env={**os.environ, **environment, **step(rank, ranks, path.parent)},
                )
            )
            stack.callback(process.kill)
            return process

        started = [start(rank) for rank in range(ranks)]
        (path.parent / "go0").touch()
        folder = Path(os.environ["XDG_RUNTIME_DIR"]) / f"rankmesh-{os.getuid()}"
        wait_until(
            lambda: started[0].poll() is not None or (folder.exists() and os.listdir(folder)),
            "rank 0",
        )
        for rank in range(1, ranks):
            (path.parent / f"go{rank}").touch()
        ended = {rank: Ended(process) for rank, process in enumerate(started) if rank != 1}
        if environment:
            started[1].kill()
        ended[1] = Ended(started[1])
    return [ended[rank] for rank in range(ranks)]


def step(rank: int, ranks: int, folder: Path) -> dict[str, str]:
    """The variables of a task of srun's, the rank for the script, and the file that it waits
    for."""
    return {
        "SLURM_JOB_ID": "71",
        "SLURM_STEP_ID": "0",
        "SLURM_PROCID": f"{rank}",
        "SLURM_STEP_NUM_TASKS": f"{ranks}",
        "SLURM_LOCALID": f"{rank}",
        "SLURM_NODEID": "0",
        "SLURM_STEP_TASKS_PER_NODE": f"{ranks}",
        "RANK": f"{rank}",
        "GO": str(folder / f"go{rank}"),
    }


def test_models_of_one_script_share_a_meeting(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    path = script(
        tmp_path,
        MODEL,
        """
        models = [build(), build()]
        sys.argv[1] = sys.argv[2]
        models.append(build())
        for model in (*models, *models):
            print(model.predict(x)[0].get_data_to_numpy())
    """,
    )
    for rank in run(path, 2, summing(tmp_path), summing(other)):
        assert rank.status == 0, rank.errors
        assert rank.out.splitlines() == ["[4. 4. 4. 4.]"] * 6


@pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="two ranks are pinned where there are two cores"
)
def test_ranks_share_the_cores(tmp_path: Path) -> None:
    path = script(tmp_path, MODEL, "build(); build(); print(sorted(os.sched_getaffinity(0)))")
    zero, one = (
        set(rank.out.strip("[]\n").split(", ")) for rank in run(path, 2, summing(tmp_path))
    )
    assert zero and one and zero.isdisjoint(one)


def test_pattern_gives_each_rank_its_shard_and_one_file_serves_all(tmp_path: Path) -> None:
    summing(tmp_path)
    path = script(tmp_path, MODEL, "print(build().predict(x)[0].get_data_to_numpy())")
    for model in ("sum.onnx", "sum{rank}.onnx", "sum0.onnx"):
        for rank in run(path, 2, str(tmp_path / model)):
            assert rank.out == "[4. 4. 4. 4.]\n", rank.errors


def test_more_shards_than_ranks(tmp_path: Path) -> None:
    summing(tmp_path, 3)
    for rank in run(script(tmp_path, MODEL, "build()"), 2, str(tmp_path / "sum.onnx")):
        assert rank.status == 1
        assert (
            "ModelError" in rank.errors
            and "names 3 shards" in rank.errors
            and "2 ranks" in rank.errors
        )


def test_rank_with_another_model_is_told_to_all(tmp_path: Path) -> None:
    summing(tmp_path)
    write_shard(tmp_path / "sum1.onnx", [all_reduce("x", "d"), all_reduce("d", "y")])
    for rank in run(script(tmp_path, MODEL, "build()"), 2, str(tmp_path / "sum{rank}.onnx")):
        assert rank.status == 1 and "ShardMismatch" in rank.errors and "rank 1" in rank.errors


@pytest.mark.parametrize(
    ("action", "victim"),  # 0 is who serves
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", 0),
        ("os.kill(os.getpid(), signal.SIGKILL)", 1),
        ("sys.exit(0)", 0),
        ("raise ValueError('enough')", 1),
        ("os._exit(3)", 1),
    ],
)
def test_rank_that_is_gone_is_named_at_once(tmp_path: Path, action: str, victim: int) -> None:
    path = script(tmp_path, TWICE.replace("VICTIM", str(victim)).replace("ACTION", action))
    ended = run(path, 3, summing(tmp_path, 3))
    gone = ended.pop(victim)
    for other in ended:
        assert other.status == 1 and other.at - float(gone.out) < AT_ONCE
        assert "predict failed! Error is rank " in other.errors
        assert f"for rank {victim}, whose process has ended (it was READY" in other.errors


def test_rank_that_is_stopped_is_named_after_the_deadline(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        TWICE.replace("VICTIM", "1").replace("ACTION", "os.kill(os.getpid(), signal.SIGSTOP)"),
    )
    zero, one = run(path, 2, summing(tmp_path), RANKMESH_COLLECTIVE_TIMEOUT=f"{SOON}")
    assert zero.at - float(one.out) < SOON + AT_ONCE
    assert (
        zero.status == 1
        and "CollectiveTimeout" in zero.errors
        and "rank 1 never entered it" in zero.errors
    )


def test_rank_that_computes_too_long_is_named_after_the_deadline(tmp_path: Path) -> None:
    path = script(tmp_path, MODEL, "print(time.time(), flush=True); build().predict(x)")
    zero, _ = run(path, 2, with_a_busy_rank(tmp_path), RANKMESH_COLLECTIVE_TIMEOUT=f"{SOON}")
    assert zero.status == 1 and "rank 1 never entered it" in zero.errors


def test_rank_that_fails_before_the_ranks_meet(tmp_path: Path) -> None:
    path = script(tmp_path, MODEL, "if rank == 1: sys.exit('no')", "build()")
    zero, _ = run(path, 2, summing(tmp_path), RANKMESH_COLLECTIVE_TIMEOUT=f"{SOON}")
    assert zero.status == 1 and "RankFailed" in zero.errors and "rank 1 never came" in zero.errors


def test_forked_child_of_a_rank_is_none(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        MODEL,
        """
        build()
        if not os.fork():
            try:
                build()
            except mslite.UsageError as error:
                print(error, flush=True)
            os._exit(0)
        os.wait()
    """,
    )
    for number, rank in enumerate(run(path, 2, summing(tmp_path))):
        assert (
            rank.status == 0
            and f"is rank {number} of 2 on " in rank.out
            and "was forked from it" in rank.out
        )
