"""One GPU, two ranks: sliced networks by gloo, and by the kernels that read peers' memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ..figures import Figure

DATA = Path(__file__).parents[3] / "tests" / "data" / "mindir"
_NETWORKS = {
    "gpu": ("dist_tp_mlp_2", "dist_tp_layer_2", "dist_tp_llama_2", "dist_pipeline_2"),
    "cpu": ("dist_tp_mlp_2",),
}
_BACKENDS = {"gpu": ("shared_memory", "gloo", "peer"), "cpu": ("gloo",)}
_DEADLINE = 25.0


def measure(device: str) -> list[Figure]:
    """How many networks differ from MindSpore's results, for each backend."""
    return [
        Figure(f"sliced networks that differ, by {backend}", _wrong(device, backend), most=0)
        for backend in _BACKENDS[device]
    ]


def _wrong(device: str, backend: str) -> int:
    return sum(not _right(name, device, backend) for name in _NETWORKS[device])


def _right(name: str, device: str, backend: str) -> bool:
    folder = DATA / name
    shards = "dist_pipeline_2_rank.mindir" if "pipeline" in name else f"{name}_rank{{rank}}.mindir"
    arrays = str(folder / f"{name}.npz")
    command = [sys.executable, "-P", "-m", "rankmesh", "run", str(folder / shards)]
    options = ["--inputs", arrays, "--expect", arrays, "--device", device, "--oversubscribe"]
    try:
        done = subprocess.run(
            [*command, *options, "--collectives", backend],
            capture_output=True,
            text=True,
            timeout=_DEADLINE if device == "gpu" else 4 * _DEADLINE,
        )
    except subprocess.TimeoutExpired:
        print(f"{name} by {backend}: not done in time")
        return False
    if done.returncode:
        print(f"{name} by {backend}: {done.stdout[-400:]} {done.stderr[-400:]}")
    return done.returncode == 0
