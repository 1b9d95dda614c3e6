"""Sliced pipelines as processes, with open dimensions: two stages, of one rank or two each."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from moody import paused, wait_running
from mpirun import run_ranks
from processes import rankmesh
from slicing import graph_of
from tiny_transformer import tiny_transformer

from rankmesh import Orchestrator
from rankmesh.compiler.slicing.emission.localise import local_model
from rankmesh.compiler.slicing.emission.trial import run_model
from rankmesh.compiler.slicing.placement.slice_plan import SlicePlan
from rankmesh.compiler.slicing.planning.pipeline import with_stages
from rankmesh.compiler.slicing.planning.propagate import propagate
from rankmesh.compiler.slicing.planning.random_plans import random_plan

SCRIPT = """import runpy, sys
sys.argv.insert(1, "run")
runpy.run_module("rankmesh", run_name="__main__")
"""


def arguments(folder: Path, ranks: int, collectives: str) -> list[str]:
    """Write the shards of two stages of `ranks` ranks, and say how to run them."""
    model, feeds = tiny_transformer(open_dims=True)
    graph = graph_of(model)
    plan = SlicePlan(1, {}) if ranks == 1 else random_plan(graph, propagate(graph, 2), 2, seed=3)
    plan = with_stages(graph, plan, 2)
    for rank in range(plan.world_size):
        shard = ir.to_proto(local_model(graph, plan, rank))
        onnx.save(shard, folder / f"tiny{rank}.onnx")
    feeds = {name: np.tile(array, (2, 1)) for name, array in feeds.items()}
    expected = run_model(graph.model.clone(), feeds)
    outputs = {f"out_{index}": array for index, array in enumerate(expected)}
    npz = folder / "tiny.npz"
    np.savez(npz, in_0=feeds["ids"], in_1=feeds["mask"], **outputs)
    found = [folder / "tiny{rank}.onnx", "--inputs", npz, "--expect", npz]
    return [*map(str, found), "--collectives", collectives]


def test_two_stages_of_two_ranks(tmp_path: Path) -> None:
    done = rankmesh("run", *arguments(tmp_path, 2, "shared_memory"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "OK: 4 outputs of 2 ranks match" in done.stdout


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_two_stages_over_gloo(tmp_path: Path) -> None:
    done = rankmesh("run", *arguments(tmp_path, 1, "gloo"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "OK: 2 outputs of 1 rank match" in done.stdout


def test_requests_of_other_sizes_are_in_the_stages_at_once(tmp_path: Path) -> None:
    pattern, *_ = arguments(tmp_path, 1, "shared_memory")
    held = np.load(tmp_path / "tiny.npz")
    with Orchestrator(pattern, ranks=2, threads=1, device="cpu") as orchestrator:
        futures = []
        for number in range(12):
            feeds = {"ids": held["in_0"][: 1 + number % 4], "mask": held["in_1"][: 1 + number % 4]}
            futures.append(orchestrator.submit(feeds))
        for number, future in enumerate(futures):
            for index, name in enumerate(("early", "logits")):
                expected = held[f"out_{index}"][: 1 + number % 4]
                np.testing.assert_allclose(future.result()[name], expected, rtol=1e-4, atol=1e-5)


def test_two_stages_of_two_ranks_have_two_requests_at_once(tmp_path: Path) -> None:
    pattern, *_ = arguments(tmp_path, 2, "shared_memory")
    held = np.load(tmp_path / "tiny.npz")
    feeds = {"ids": held["in_0"], "mask": held["in_1"]}
    with Orchestrator(pattern, ranks=4, threads=1, device="cpu") as orchestrator:
        orchestrator.predict(feeds)
        with paused(orchestrator, 3):
            futures = [orchestrator.submit(feeds) for _ in range(5)]
            wait_running(orchestrator, 2)
            (metrics,) = orchestrator.metrics().values()
            assert (metrics["running"], metrics["queue_depth"]) == (2, 3)
        for future in futures:
            np.testing.assert_allclose(
                future.result()["logits"], held["out_1"], rtol=1e-4, atol=1e-5
            )


def test_two_stages_under_mpirun(tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(SCRIPT)
    ended = run_ranks(2, *arguments(tmp_path, 1, "mpi"), script=script)
    assert ended.status == 0, ended.text
    assert "OK: 2 outputs of 1 rank match" in ended.text
