"""A model that does what its inputs say: takes long, for ever, fails, or gives outputs of any size;
and who runs it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, save
from onnx_models import collective, model, node
from processes import wait_until

from rankmesh import Orchestrator
from rankmesh.orchestrator.replica.replica import Replica

FOR_EVER = 2**62
Inputs = dict[str, Any]


def inputs(
    rounds: int = 0, size: int = 4, shape: tuple[int, ...] | None = None, start: float = 0.0
) -> Inputs:
    """`size` numbers from `start` up; `rounds` is even. `shape` (default: the size) is what rank 1
    reshapes them to.
    """
    return {
        "x": np.arange(start, start + size, dtype=np.float32),
        "rounds": np.array(rounds),
        "shape": np.array((size,) if shape is None else shape),
    }


def expected(given: Inputs, ranks: int) -> Any:
    """What `ranks` ranks make of it: each gives 2x."""
    return given["x"] * np.float32(2 * ranks)


def moody(folder: Path, ranks: int = 1) -> str:
    """Writes the shards; the last rank is the moody one. With several, they sum what each has;
    returns the pattern.
    """
    for rank in range(ranks):
        nodes = [
            node("Add", "v v", "d"),
            collective("AllReduce", "d", "y", group="world")
            if ranks > 1
            else node("Identity", "d", "y"),
        ]
        before = (
            [_negations(), node("Reshape", "w shape", "v")]
            if rank == ranks - 1
            else [node("Identity", "x", "v")]
        )
        types = {"x": ["n"], "rounds": (np.int64, []), "shape": (np.int64, ["dims"])}
        save(
            model([*before, *nodes], types, {"y": ["n"]}, constants={"go": np.array(True)}),
            folder / f"moody{rank}.onnx",
        )
    return str(folder / "moody{rank}.onnx")


def pipeline(folder: Path) -> str:
    """Two stages, of which the first is the moody one: y = 2x, of size 4."""
    types = {"x": [4], "rounds": (np.int64, []), "shape": (np.int64, ["dims"])}
    first = [
        _negations(),
        node("Reshape", "w shape", "v"),
        collective("Send", "v", "", group="world", to=1),
    ]
    then = [
        collective("Receive", "", "v", group="world", source=0, shape=[4], dtype=TensorProto.FLOAT),
        node("Add", "v v", "y"),
    ]
    save(
        model(
            first, types, {"y": [4]}, constants={"go": np.array(True), "y": np.zeros(4, np.float32)}
        ),
        folder / "stage0.onnx",
    )
    save(model(then, types, {"y": [4]}), folder / "stage1.onnx")
    return str(folder / "stage{rank}.onnx")


def _negations() -> Any:
    """w = x, after `rounds` negations."""
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [node("Identity", "on_in", "on"), node("Neg", "v_in", "v_out")],
        "body",
        [
            info("i", TensorProto.INT64, []),
            info("on_in", TensorProto.BOOL, []),
            info("v_in", TensorProto.FLOAT, ["n"]),
        ],
        [info("on", TensorProto.BOOL, []), info("v_out", TensorProto.FLOAT, ["n"])],
    )
    return helper.make_node("Loop", ["rounds", "go", "x"], ["w"], body=body)


def wait_running(orchestrator: Orchestrator, requests: int = 1) -> None:
    """Until so many requests, or batches of them, are with ranks."""

    def running() -> int:
        return sum(metrics["running"] for metrics in orchestrator.metrics().values())

    wait_until(lambda: running() >= requests, f"{requests} requests to run")


def replicas(orchestrator: Orchestrator) -> tuple[Replica, ...]:
    """The replicas of its only model, for tests that look inside."""
    model = orchestrator._fleet.find(None)
    return model.replicas


def wait_ready(orchestrator: Orchestrator) -> None:
    """Until all ranks are."""
    wait_until(lambda: orchestrator.status().state == "ready", "all ranks to be ready")


def strike(orchestrator: Orchestrator, rank: int, number: signal.Signals = signal.SIGKILL) -> int:
    """Signal the process of a rank; its id."""
    pid = orchestrator.status().ranks[rank].pid
    assert pid is not None
    os.kill(pid, number)
    return pid


@contextmanager
def paused(orchestrator: Orchestrator, rank: int) -> Iterator[int]:
    """Inside, the process of a rank is stopped, so that what is given to it runs until afterwards;
    its id.
    """
    pid = strike(orchestrator, rank, signal.SIGSTOP)
    try:
        yield pid
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
