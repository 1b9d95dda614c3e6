"""ModelParallelRunner under five clients against onnxruntime sessions that the clients use
directly.

    python bench/runner.py [--rounds 9] [--tasks 60] [--workers N]

A random network of MobileNetV2's structure at batch 1, in ONNX, which both run; one thread per
worker and per session. Every round measures each contender in a process of its own: the runner with
N workers (by default one per core), a session per client, the same again as control, and one
session for all clients. Throughput counts all requests; p99 is that of single requests, queueing
included.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
from onnx_writer import OnnxWriter
from report import print_machine, print_table, ratios, spread
from rounds import interleaved

THROUGHPUT_BAR, P99_BAR = 0.95, 1.2
_CLIENTS = 5
_SERVING = Path(__file__).with_name("serving.py")
_CONTENDERS = {
    "a session per client": "sessions",
    "ModelParallelRunner": "runner",
    "a session per client again (control)": "sessions",
    "one session for all clients": "session",
}


class Load(NamedTuple):
    """One contender's round."""

    per_second: float
    p99: float  # ms


def served(who: str, model: Path, npz: Path, scratch: Path, workers: int, tasks: int) -> Load:
    """What one contender serves in a new process; its output must be that of the others."""
    result = scratch / f"{who}.npz"
    command = [
        sys.executable,
        str(_SERVING),
        who,
        str(model),
        str(npz),
        str(workers),
        str(_CLIENTS),
        str(tasks),
        str(result),
    ]
    wall, seconds = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    with np.load(result) as got, np.load(npz) as reference:
        scale = float(np.abs(reference["out_0"]).max())
        np.testing.assert_allclose(got["out_0"], reference["out_0"], rtol=1e-3, atol=1e-3 * scale)
    return Load(len(seconds) / wall, float(np.percentile(seconds, 99)) * 1e3)


def mobile_net(folder: Path) -> tuple[Path, Path]:
    """A network of MobileNetV2's structure with random weights; an input and its output."""
    rng = np.random.default_rng(0)
    writer = OnnxWriter(folder, "mobile")

    def conv(
        x: str, given: int, made: int, kernel: int, stride: int, groups: int, active: bool = True
    ) -> str:
        weight = rng.standard_normal((made, given // groups, kernel, kernel), np.float32)
        weight *= np.sqrt(2 / (given // groups * kernel * kernel))
        y = writer.op(
            "Conv",
            x,
            writer.weight(weight),
            strides=[stride, stride],
            group=groups,
            pads=[kernel // 2] * 4,
        )
        low, high = writer.constant(np.float32(0)), writer.constant(np.float32(6))
        return writer.op("Clip", y, low, high) if active else y

    x, channels = conv("x", 3, 32, 3, 2, 1), 32
    for made, count, stride in (
        (16, 1, 1),
        (24, 2, 2),
        (32, 3, 2),
        (64, 4, 2),
        (96, 3, 1),
        (160, 3, 2),
        (320, 1, 1),
    ):
        for number in range(count):
            step, wide = stride if number == 0 else 1, channels * 6
            y = conv(conv(x, channels, wide, 1, 1, 1), wide, wide, 3, step, wide)
            y = conv(y, wide, made, 1, 1, 1, active=False)
            x, channels = (writer.op("Add", x, y) if step == 1 and channels == made else y), made
    y = writer.op("Flatten", writer.op("GlobalAveragePool", conv(x, channels, 1280, 1, 1, 1)))
    y = writer.op(
        "MatMul", y, writer.weight(rng.standard_normal((1280, 1000), np.float32) / np.float32(36))
    )
    writer.save({"x": (1, 3, 224, 224)}, y, (1, 1000))
    return folder / "mobile.onnx", _with_reference(
        folder / "mobile.onnx", folder / "mobile.npz", rng
    )


def _with_reference(model: Path, npz: Path, rng: np.random.Generator) -> Path:
    import onnxruntime as ort

    x = rng.standard_normal((1, 3, 224, 224), np.float32)
    options = ort.SessionOptions()
    options.log_severity_level = 3
    (y,) = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(
        None, {"x": x}
    )
    np.savez(npz, in_0=x, out_0=y)
    return npz


def main() -> None:
    parser = argparse.ArgumentParser(
        description="ModelParallelRunner against onnxruntime sessions used directly."
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument(
        "--tasks", type=int, default=60, help="requests of each of the five clients"
    )
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    if not find_spec("onnxruntime"):
        sys.exit("onnxruntime is not installed: pip install 'rankmesh[cpu]'")
    print_machine("onnxruntime", "numpy")
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        model, npz = mobile_net(scratch)
        results = interleaved(
            {
                name: partial(served, who, model, npz, scratch, options.workers, options.tasks)
                for name, who in _CONTENDERS.items()
            },
            options.rounds,
        )
    report(results, options.workers, options.rounds)


def report(results: dict[str, list[Load]], workers: int, rounds: int) -> None:
    """The table, and whether the bars hold."""
    base = results["a session per client"]
    rows, found = [], {}
    for name, loads in results.items():
        faster = ratios([load.per_second for load in loads], [load.per_second for load in base])
        later = ratios([load.p99 for load in loads], [load.p99 for load in base])
        found[name] = median(faster), median(later)
        rows.append(
            (
                name,
                spread([load.per_second for load in loads], 1),
                spread(faster, 2),
                spread([load.p99 for load in loads], 1),
                spread(later, 2),
            )
        )
    print_table(
        (
            f"{_CLIENTS} clients, {workers} workers",
            "requests/s",
            "of the sessions'",
            "p99, ms",
            "of the sessions'",
        ),
        rows,
    )
    throughput, p99 = found["ModelParallelRunner"]
    holds = throughput >= THROUGHPUT_BAR and p99 <= P99_BAR
    print(
        f"{rounds} rounds; throughput {throughput:.2f} (bar {THROUGHPUT_BAR}), p99 {p99:.2f} "
        f"(bar {P99_BAR}): "
        f"{'holds' if holds else 'MISSED'}"
    )


if __name__ == "__main__":
    main()
