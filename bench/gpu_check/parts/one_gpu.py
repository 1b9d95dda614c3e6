"""Two ranks on one GPU: sliced networks by each of the collectives that two ranks there may use.

Without a choice of the user they take nccl where each has a GPU, and shared memory on one.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import torch

from ..figures import Figure

DATA = Path(__file__).parents[3] / "tests" / "data" / "mindir"
_NETWORKS = {
    "gpu": ("dist_tp_mlp_2", "dist_tp_layer_2", "dist_tp_llama_2", "dist_pipeline_2"),
    "cpu": ("dist_tp_mlp_2",),
}
_BACKENDS = {"gpu": ["shared_memory", "gloo", "peer"], "cpu": ["gloo"]}
_DEADLINE = 25.0


def measure(device: str) -> list[Figure]:
    """How many networks differ from MindSpore's results, for each backend; and whether the ranks
    choose the right one.
    """
    several = device == "gpu" and torch.cuda.device_count() > 1
    figures = [
        Figure(f"sliced networks that differ, by {backend}", _wrong(device, backend), most=0)
        for backend in _BACKENDS[device] + ["nccl"] * several
    ]
    expected = "nccl" if several else "shared_memory"
    found = _ran(_NETWORKS[device][0], device, "")
    print(f"chosen unasked: {found}")
    return [*figures, Figure(f"unasked: not by {expected}", int(found != expected), most=0)]


def _wrong(device: str, backend: str) -> int:
    return sum(_ran(name, device, backend) != backend for name in _NETWORKS[device])


def _ran(name: str, device: str, backend: str) -> str:
    """The collectives that carried a network whose results are right, "" for any other; `backend`
    is the one to use, "" for what the ranks choose.
    """
    folder = DATA / name
    shards = "dist_pipeline_2_rank.mindir" if "pipeline" in name else f"{name}_rank{{rank}}.mindir"
    arrays = str(folder / f"{name}.npz")
    command = [sys.executable, "-P", "-m", "rankmesh", "run", str(folder / shards)]
    options = ["--inputs", arrays, "--expect", arrays, "--json"]
    options += ["--device", device, "--oversubscribe"]
    try:
        done = subprocess.run(
            [*command, *options, *(["--collectives", backend] if backend else [])],
            capture_output=True,
            text=True,
            timeout=_DEADLINE if device == "gpu" else 4 * _DEADLINE,
        )
    except subprocess.TimeoutExpired:
        print(f"{name} by {backend}: not done in time")
        return ""
    if done.returncode:
        print(f"{name} by {backend}: {done.stdout[-400:]} {done.stderr[-400:]}")
        return ""
    return str(json.loads(done.stdout)["ranks"][0]["collectives"])
