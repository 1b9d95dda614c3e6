"""Recovery: a rank on the device is killed; seconds until the orchestrator answers again."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path

import numpy as np
from orchestrator_models import write

from rankmesh import Orchestrator

from ..figures import Figure

_KILLS = {"gpu": 3, "cpu": 1}
_BAR = 5.0


def measure(device: str) -> list[Figure]:
    """The longest of some recoveries, and the memory that killed ranks have left on the GPU."""
    x = np.ones((64, 64), np.float32)
    with tempfile.TemporaryDirectory() as scratch:
        model = write(Path(scratch))["double"]
        with Orchestrator(model, threads=1, device=device) as orchestrator:
            orchestrator.predict(x)
            free = _free(device)
            seconds = [_recovery(orchestrator, x) for _ in range(_KILLS[device])]
            lost = free - _free(device)
    figures = [Figure("kill -9 of a rank until the next answer", max(seconds), "s", most=_BAR)]
    if device == "gpu":
        figures.append(
            Figure("GPU memory that killed ranks have kept", lost / 2**20, "MiB", most=64)
        )
    return figures


def _recovery(orchestrator: Orchestrator, x: np.ndarray) -> float:
    victim = orchestrator.status().ranks[0].pid
    assert victim
    start = time.monotonic()
    os.kill(victim, signal.SIGKILL)
    while True:
        try:
            answer = orchestrator.predict(x)["y"]
        except RuntimeError:  # the request that was under way
            continue
        if orchestrator.status().ranks[0].pid not in (None, victim):
            assert (answer == 2 * x).all()
            return time.monotonic() - start


def _free(device: str) -> int:
    if device == "cpu":
        return 0
    import torch

    return int(torch.cuda.mem_get_info()[0])
