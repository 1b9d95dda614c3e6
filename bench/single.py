"""One rank on a CPU: our predict against onnxruntime on the same network from torch, and MindSpore on the same file.

    python bench/single.py [--rounds 9] [--threads 2] [--mindspore PYTHON] [NAME ...]

Every round starts each contender afresh in a process of its own, one after the other. The control is onnxruntime once
more. `--mindspore` (or RANKMESH_BENCH_MINDSPORE) names the Python of an environment with MindSpore; the networks come
from there too, see tests/oracle/bench_models.py. The twins are torch's own export of the same structure with the same
weights (bench/twins, `dynamo=False`).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
from networks import Network, with_twins, written
from report import print_machine, print_table, ratios, spread
from rounds import interleaved

BAR, ALLOWED = 1.03, 1e-4
_INFERRING = Path(__file__).with_name("inferring.py")
_TWIN, _AGAIN, _MINDSPORE, _OURS = "onnxruntime", "control", "MindSpore", "rankmesh"


class Round(NamedTuple):
    """One contender's round: the median latency in ms and its outputs' largest relative error."""

    latency: float
    error: float


def measured(python: str, who: str, model: Path, network: Network, threads: int) -> Round:
    """A process's requests, and how far its outputs are from what MindSpore gave when it wrote the file."""
    with tempfile.TemporaryDirectory() as scratch:
        result = Path(scratch) / "result.npz"
        command = [python, str(_INFERRING), who, str(model), str(network.results), str(threads), str(network.requests),
                   str(result)]
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "GLOG_v": "3"}
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=scratch, env=environment)
        seconds = json.loads(done.stdout.splitlines()[-1])
        return Round(median(seconds) * 1e3, _error(network.results, result))


def _error(reference: Path, result: Path) -> float:
    with np.load(reference) as expected, np.load(result) as found:
        pairs = [(expected[name], found[name]) for name in expected.files if name.startswith("out_")]
    return max(float(np.abs(got - want).max() / np.abs(want).max()) for want, got in pairs)


def contenders(network: Network, twin: bool, mindspore: str, threads: int) -> dict[str, Callable[[], Round]]:
    """Who takes part with a network, by name."""
    found = {}
    if twin:
        for name in (_TWIN, _AGAIN):
            found[name] = lambda: measured(sys.executable, "onnxruntime", network.twin, network, threads)
    if mindspore:
        found[_MINDSPORE] = lambda: measured(mindspore, "mindspore", network.mindir, network, threads)
    found[_OURS] = lambda: measured(sys.executable, "rankmesh", network.mindir, network, threads)
    return found


def row(network: Network, results: dict[str, list[Round]]) -> tuple[str, ...]:
    """A line of the table."""
    latencies = {name: [one.latency for one in found] for name, found in results.items()}
    ours, twin = latencies[_OURS], latencies.get(_TWIN)
    cells = [network.title, spread(ours, 1)]
    if twin:
        cells += [spread(twin, 1), spread(ratios(latencies[_AGAIN], twin)), spread(ratios(ours, twin))]
    else:
        cells += ["-"] * 3
    theirs = latencies.get(_MINDSPORE)
    if theirs:
        mark = " (1)" if network.convolutions else ""
        cells += [spread(theirs, 1) + mark, spread(ratios(ours, theirs))]
    return (*cells, f"{max(one.error for one in results[_OURS]):.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Our predict against onnxruntime's and MindSpore's, one process each.")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--mindspore", metavar="PYTHON", default=os.environ.get("RANKMESH_BENCH_MINDSPORE", ""))
    options = parser.parse_args()
    if not find_spec("onnxruntime"):
        sys.exit("onnxruntime is not installed: pip install rankmesh[cpu]")
    print_machine("onnxruntime", "numpy")
    mindspore = options.mindspore or (sys.executable if find_spec("mindspore") else "")
    networks = written(options.names)
    if not networks:
        sys.exit("no network is left to measure")
    twins = with_twins(networks)
    results = {}
    for network in networks:
        found = interleaved(contenders(network, network in twins, mindspore, options.threads), options.rounds)
        results[network] = found
        medians = ", ".join(f"{name} {median(one.latency for one in rounds):.1f} ms" for name, rounds in found.items())
        print(f"{network.title}: {medians}", file=sys.stderr)
    report(results, bool(mindspore))


def report(results: dict[Network, dict[str, list[Round]]], mindspore: bool) -> None:
    """Print the table and whether the bar holds."""
    header = ["network", "rankmesh, ms", "onnxruntime, ms", "control / onnxruntime", "rankmesh / onnxruntime"]
    header += ["MindSpore, ms", "rankmesh / MindSpore"] if mindspore else []
    print_table((*header, "largest relative error"), [row(*item) for item in results.items()])
    if mindspore:
        print("(1) not a fair comparison: MindSpore's Conv2D runs a reference kernel on the CPU.")
    else:
        print("MindSpore is not installed here (--mindspore PYTHON): left out.")
    for network, found in results.items():
        if _TWIN in found:
            ratio = median(ratios([one.latency for one in found[_OURS]], [one.latency for one in found[_TWIN]]))
            print(f"{network.title}: ratio {ratio:.3f}, bar {BAR}: {'holds' if ratio <= BAR else 'MISSED'}")
    worst = max(one.error for found in results.values() for one in found[_OURS])
    print(f"largest relative error of an output of ours to MindSpore's {worst:.1e} (allowed {ALLOWED})")


if __name__ == "__main__":
    main()
