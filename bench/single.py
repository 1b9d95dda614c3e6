"""One rank on a CPU: our predict against onnxruntime on the same network from torch, and MindSpore
on the same file.

    python bench/single.py [--rounds 9] [--threads 2] [--mindspore PYTHON] [NAME ...]

Every round starts each contender afresh in a process of its own; these take turns of some requests
each. The control is onnxruntime once more. `--mindspore` (or RANKMESH_BENCH_MINDSPORE) names the
Python of an environment with MindSpore; the networks come from there too, see
tests/oracle/bench_models.py. The twins are torch's own export of the same structure with the same
weights (bench/twins, `dynamo=False`).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
from networks import Network, with_twins, written
from report import print_machine, print_table, ratios, spread
from rounds import undisturbed

BAR, ALLOWED = 1.03, 1e-4
_INFERRING = Path(__file__).with_name("inferring.py")
_TURNS = 10
_REST = 0.1
"""Seconds before each turn, in which the idle threads of the contender before stop spinning."""

_TWIN, _AGAIN, _MINDSPORE, _OURS = "onnxruntime", "control", "MindSpore", "rankmesh"


class Round(NamedTuple):
    """One contender's round: the median latency in ms and its outputs' largest relative error."""

    latency: float
    error: float


class Contender(NamedTuple):
    """The Python that runs it, which of bench/inferring.py it is, and its model file."""

    python: str
    who: str
    model: Path


class Running:
    """A contender's process, ready for requests; asleep between its turns."""

    def __init__(self, contender: Contender, network: Network, threads: int, scratch: Path) -> None:
        self._network, self._result = network, scratch / "result.npz"
        command = [
            contender.python,
            str(_INFERRING),
            contender.who,
            str(contender.model),
            str(network.results),
            str(threads),
            str(self._result),
        ]
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "GLOG_v": "3"}
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=scratch,
            env=environment,
        )
        self._seconds = self._answer()

    def take_turn(self, requests: int) -> None:
        """Make some requests."""
        assert self._process.stdin is not None
        print(requests, file=self._process.stdin, flush=True)
        self._seconds += self._answer()

    def end(self) -> Round:
        """The median of all requests."""
        self._process.communicate()
        return Round(median(self._seconds) * 1e3, _error(self._network.results, self._result))

    def _answer(self) -> list[float]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("["):  # MindSpore says other things, too
                found: list[float] = json.loads(line)
                return found
        sys.exit(f"{self._process.args} has ended")


def measured(contenders: dict[str, Contender], network: Network, threads: int) -> dict[str, Round]:
    """One round: every contender in a new process, all of which take turns, so that no phase of the
    machine is one's.

    How far the outputs are from what MindSpore gave when it wrote the file is a part of it.
    """
    with tempfile.TemporaryDirectory() as scratch:
        running = {}
        for name, contender in contenders.items():
            place = Path(scratch) / name
            place.mkdir()
            running[name] = Running(contender, network, threads, place)
        if network.convolutions and _MINDSPORE in running:
            running[_MINDSPORE].take_turn(1)  # which takes seconds
        names = [name for name in running if name != _MINDSPORE or not network.convolutions]
        for turn in range(_TURNS):
            order = names[turn % len(names) :] + names[: turn % len(names)]
            for name in order[::-1] if turn % 2 else order:
                time.sleep(_REST)
                running[name].take_turn(max(2, network.requests // _TURNS))
        return {name: one.end() for name, one in running.items()}


def _error(reference: Path, result: Path) -> float:
    with np.load(reference) as expected, np.load(result) as found:
        pairs = [
            (expected[name], found[name]) for name in expected.files if name.startswith("out_")
        ]
    return max(float(np.abs(got - want).max() / np.abs(want).max()) for want, got in pairs)


def contenders(network: Network, twin: bool, mindspore: str) -> dict[str, Contender]:
    """Who takes part with a network, by name."""
    found = {}
    if twin:
        for name in (_TWIN, _AGAIN):
            found[name] = Contender(sys.executable, "onnxruntime", network.twin)
    if mindspore:
        found[_MINDSPORE] = Contender(mindspore, "mindspore", network.mindir)
    found[_OURS] = Contender(sys.executable, "rankmesh", network.mindir)
    return found


def row(network: Network, results: dict[str, list[Round]]) -> tuple[str, ...]:
    """A line of the table."""
    latencies = {name: [one.latency for one in found] for name, found in results.items()}
    ours, twin = latencies[_OURS], latencies.get(_TWIN)
    cells = [network.title, spread(ours, 1)]
    if twin:
        cells += [
            spread(twin, 1),
            spread(ratios(latencies[_AGAIN], twin)),
            spread(ratios(ours, twin)),
        ]
    else:
        cells += ["-"] * 3
    theirs = latencies.get(_MINDSPORE)
    if theirs:
        mark = " (1)" if network.convolutions else ""
        cells += [spread(theirs, 1) + mark, spread(ratios(ours, theirs))]
    return (*cells, f"{max(one.error for one in results[_OURS]):.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Our predict against onnxruntime's and MindSpore's, one process each."
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument(
        "--mindspore", metavar="PYTHON", default=os.environ.get("RANKMESH_BENCH_MINDSPORE", "")
    )
    options = parser.parse_args()
    if not find_spec("onnxruntime"):
        sys.exit("onnxruntime is not installed: pip install 'rankmesh[cpu]'")
    print_machine("onnxruntime", "numpy")
    mindspore = options.mindspore or (sys.executable if find_spec("mindspore") else "")
    networks = written(options.names)
    if not networks:
        sys.exit("no network is left to measure")
    twins = with_twins(networks)
    results = {}
    for network in networks:
        taking_part = contenders(network, network in twins, mindspore)
        turn = partial(measured, taking_part, network, options.threads)
        rounds = [undisturbed(turn) for _ in range(options.rounds)]
        found = results[network] = {name: [one[name] for one in rounds] for name in taking_part}
        medians = ", ".join(
            f"{name} {median(one.latency for one in took):.1f} ms" for name, took in found.items()
        )
        print(f"{network.title}: {medians}", file=sys.stderr)
    report(results, bool(mindspore))


def report(results: dict[Network, dict[str, list[Round]]], mindspore: bool) -> None:
    """Print the table and whether the bar holds."""
    header = [
        "network",
        "rankmesh, ms",
        "onnxruntime, ms",
        "control / onnxruntime",
        "rankmesh / onnxruntime",
    ]
    header += ["MindSpore, ms", "rankmesh / MindSpore"] if mindspore else []
    print_table((*header, "largest relative error"), [row(*item) for item in results.items()])
    if mindspore:
        print("(1) not a fair comparison: MindSpore's Conv2D runs a reference kernel on the CPU.")
    else:
        print("MindSpore is not installed here (--mindspore PYTHON): left out.")
    for network, found in results.items():
        if _TWIN in found:
            ratio = median(
                ratios([one.latency for one in found[_OURS]], [one.latency for one in found[_TWIN]])
            )
            print(
                f"{network.title}: ratio {ratio:.3f}, bar {BAR}: "
                f"{'holds' if ratio <= BAR else 'MISSED'}"
            )
    worst = max(one.error for found in results.values() for one in found[_OURS])
    print(
        f"largest relative error of an output of ours to MindSpore's {worst:.1e} (allowed "
        f"{ALLOWED})"
    )


if __name__ == "__main__":
    main()
