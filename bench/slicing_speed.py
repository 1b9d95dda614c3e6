"""Sliced networks on two ranks of one thread, against onnxruntime with two threads and with one.

    rankmesh calibrate --ranks 2
    python bench/slicing_speed.py FOLDER NAME [NAME ...] [--rounds 9] [--requests 10]

FOLDER has NAME.onnx and NAME.npz, as bench/slicing_networks exports them. `NAME@free` has no memory
target: the plan is the fastest one that was found. The ratio to two threads is the bar's. The ratio
to one thread is compared with the predicted one. Every round starts each contender afresh.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from report import print_machine, print_table, ratios, spread
from rounds import interleaved

BARS = {"bert_base": 1.05, "vit_base": 1.05, "resnet50_base": 1.35, "resnet50_base@free": 1.10}
_ALONE = Path(__file__).with_name("alone.py")
_LATENCY = re.compile(r"median ([\d.]+) ms")
_FREE = 1 << 50


class Sliced(NamedTuple):
    """Shards: their pattern, and the predicted latency as a ratio to one rank alone."""

    pattern: str
    predicted: float
    measured_costs: bool


def sliced(model: Path, folder: Path, free: bool) -> Sliced:
    """Slice a model for two ranks, in a process of its own."""
    code = (
        "import json, sys, rankmesh\n"
        "path, folder, memory = sys.argv[1:]\n"
        "plan = rankmesh.plan_slices(path, 2, int(memory) or None)\n"
        "report = rankmesh.slice_model(path, plan, folder, verify='none')\n"
        "ratio = plan.predicted_seconds / plan.seconds_alone\n"
        "print(json.dumps([report.pattern, ratio, 'measured' in str(plan)]))\n"
    )
    memory = str(_FREE if free else 0)
    command = [sys.executable, "-c", code, str(model), str(folder), memory]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return Sliced(*json.loads(done.stdout))


def alone(model: Path, threads: int, requests: int, result: Path) -> float:
    """The median latency of onnxruntime on the whole model, in ms."""
    inputs = model.with_suffix(".npz")
    command = [sys.executable, _ALONE, model, inputs, str(threads), str(requests), result]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return float(median(json.loads(done.stdout))) * 1e3


def rankmesh(pattern: str, inputs: Path, requests: int, expected: Path) -> float:
    """The median latency of `rankmesh run` in ms; it ends the bench where outputs differ."""
    command = [sys.executable, "-m", "rankmesh", "run", pattern, "--inputs", str(inputs)]
    command += ["--expect", str(expected), "--repeat", str(requests), "--device", "cpu"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    latency = _LATENCY.search(done.stdout)
    if done.returncode or not latency:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}")
    return float(latency[1])


def measured(folder: Path, name: str, options: argparse.Namespace) -> tuple[str, ...]:
    """The row of a network in the table."""
    stem, _, free = name.partition("@")
    model = folder / f"{stem}.onnx"
    with tempfile.TemporaryDirectory() as scratch:
        expected, again = Path(scratch) / "expected.npz", Path(scratch) / "again.npz"
        alone(model, 2, 1, expected)
        found = sliced(model, Path(scratch) / "shards", bool(free))
        one = partial(alone, model, requests=options.requests, result=again)
        inputs = model.with_suffix(".npz")
        ours = partial(rankmesh, found.pattern, inputs, options.requests, expected)
        contenders = {
            "two": partial(one, threads=2),
            "again": partial(one, threads=2),
            "one": partial(one, threads=1),
            "ours": ours,
        }
        results = interleaved(contenders, options.rounds)
    to_two = ratios(results["ours"], results["two"])
    to_one = median(ratios(results["ours"], results["one"]))
    bar = BARS.get(name)
    verdict = "-" if bar is None else f"{bar} {'holds' if median(to_two) <= bar else 'MISSED'}"
    return (
        name,
        spread(results["two"], 1),
        spread(results["ours"], 1),
        spread(to_two),
        spread(ratios(results["again"], results["two"])),
        verdict,
        f"{to_one:.3f}",
        f"{found.predicted:.3f}{'' if found.measured_costs else ' (estimated costs)'}",
        f"{found.predicted / to_one - 1:+.0%}",
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Sliced networks on 2 ranks x 1 thread against onnxruntime."
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--requests", type=int, default=10, help="per contender and round")
    options = parser.parse_args()
    print_machine("onnxruntime", "numpy")
    rows = []
    for name in options.names:
        rows.append(measured(options.folder, name, options))
        print(*rows[-1], sep=" | ", flush=True)
    heads = ("network", "2 threads, ms", "2 ranks, ms", "ratio", "control", "bar")
    print_table((*heads, "to 1 thread", "predicted", "off by"), rows)
    print(f"load {os.getloadavg()[0]:.2f} after")


if __name__ == "__main__":
    main()
