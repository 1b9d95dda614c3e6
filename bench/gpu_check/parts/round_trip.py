"""Round trip: what an orchestrator adds to a model, and its way of large tensors to the device."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
from orchestrator_models import write

from rankmesh import Context, Model, ModelType, Orchestrator

from ..figures import Figure

_SMALL, _LARGE = 1 << 10, 1 << 22  # numbers: 4 KB and 16 MB
_CALLS = {"gpu": (1000, 60), "cpu": (50, 5)}
_ADDED_BAR, _COPY_BAR = 150.0, 0.8


def measure(device: str) -> list[Figure]:
    """The time that an orchestrator adds to a request of 4 KB, and the rate of 16 MB."""
    small, large = _CALLS[device]
    with tempfile.TemporaryDirectory() as scratch:
        models = write(Path(scratch))
        own = _model(models["4KB"], device, small)
        with Orchestrator(models["4KB"], threads=1, device=device) as orchestrator:
            x = {"x": np.ones(_SMALL, np.float32)}
            served = _seconds(lambda: orchestrator.predict(x), small)
        with Orchestrator(models["16MB doubled"], threads=1, device=device) as orchestrator:
            whole, wrong = _in_buffers(orchestrator, large)
    figures = [
        Figure("4 KB, Model.predict in this process", own * 1e6, "µs"),
        Figure("4 KB, what an orchestrator adds", (served - own) * 1e6, "µs", most=_ADDED_BAR),
        Figure("16 MB with buffers(), doubled on the device", whole * 1e3, "ms"),
        Figure("answers of 16 MB that are wrong", wrong, most=0),
    ]
    if device == "gpu":
        rate = _copy_seconds(large) / whole
        figures.append(Figure("16 MB, of the rate of pinned memcpy", rate, least=_COPY_BAR))
    return figures


def _model(path: str, device: str, calls: int) -> float:
    """The seconds of a request to the model alone."""
    context, model = Context(), Model()
    context.target, context.cpu.thread_num = [device], 1
    model.build_from_file(path, ModelType.MINDIR, context)
    x = [np.ones(_SMALL, np.float32)]
    return _seconds(lambda: model.predict(x)[0].get_data_to_numpy(), calls)


def _in_buffers(orchestrator: Orchestrator, calls: int) -> tuple[float, int]:
    """The seconds of a request with buffers, and how many of three answers are not twice x."""
    with orchestrator.buffers() as buffers:
        buffers["x"][...] = 1
        seconds = _seconds(lambda: orchestrator.predict(buffers), calls)
        wrong = 0
        for number in range(2, 5):  # each answer is of its own request
            buffers["x"][...] = np.arange(_LARGE) % 1000 + number
            answer = orchestrator.predict(buffers)["y"]
            wrong += int(not np.array_equal(answer, 2 * buffers["x"]))
    return seconds, wrong


def _copy_seconds(calls: int) -> float:
    """16 MB from pinned memory to the GPU and back."""
    import torch

    host = torch.ones(_LARGE, pin_memory=True)
    device = torch.empty(_LARGE, device="cuda")

    def copy() -> None:
        device.copy_(host, non_blocking=True)
        host.copy_(device, non_blocking=True)
        torch.cuda.synchronize()

    return _seconds(copy, calls)


def _seconds(call: Callable[[], object], calls: int) -> float:
    """The median, after a tenth of the calls."""
    for _ in range(max(3, calls // 10)):
        call()
    found = []
    for _ in range(calls):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return median(found)
