"""The orchestrator against what people use instead: pipes, pools, Ray, plain processes.

    python bench/orchestrator.py [--rounds 9] [--fault-seconds 60] [PART ...]

The parts are calls, load, tensor-parallel, faults, growth, start (all by default). Every round
measures each contender in processes of its own. Ray takes part where it is installed (`pip install
'rankmesh[bench]'`).
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

import numpy as np
from models import bert_folder
from networks import NETWORKS
from orchestrator_growth import growth
from orchestrator_models import write
from report import print_machine, print_table, ratios, spread
from rounds import interleaved, undisturbed
from tensor_parallel import rankmesh as spmd

_HERE = Path(__file__).parent
_SAMPLE = _HERE.parent / "launch" / "sample" / "Matmul.mindir"
_PEERS = {"pipe": "Pipe + pickle", "pool": "ProcessPoolExecutor", "ray": "Ray actor"}
_BARS = {"4 KB": 60.0, "4 KB, 2 ms apart": 150.0, "16 MB": 300.0, "16 MB, 2 ranks": 400.0}


def called(script: str, *arguments: str) -> str:
    """What a script of this folder prints last, in a process of its own."""
    command = [sys.executable, str(_HERE / script), *arguments]
    return subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.splitlines()[-1]


def verdict(what: str, value: float, bar: float, least: bool = False) -> None:
    """One line that says whether a bar holds."""
    holds = value >= bar if least else value <= bar
    print(f"{what}: {value:.3g}, bar {bar:g}: {'holds' if holds else 'MISSED'}")


def calls(rounds: int, folder: str) -> None:
    """Round trips of a tensor that nothing is done with."""
    rows = []
    for case, bar in _BARS.items():
        names = ["rankmesh", "pipe", "pool", *(["channel"] if case == "4 KB" else [])]
        found = interleaved({who: partial(_round_trip, who, case, folder) for who in names}, rounds)
        if find_spec(
            "ray"
        ):  # not in turns: its daemons count as strangers, who have every round repeated
            found["ray"] = [_round_trip("ray", case, folder) for _ in range(rounds)]
        for who, times in found.items():
            rows.append(
                (
                    case,
                    {"rankmesh": "Orchestrator.predict", "channel": "the ring alone", **_PEERS}[
                        who
                    ],
                    spread(times, 1),
                    spread(ratios(times, found["rankmesh"]), 1),
                )
            )
        verdict(f"predict of {case}, µs", median(found["rankmesh"]), bar)
        if "channel" in found:
            verdict("the ring alone, µs", median(found["channel"]), 15.0)
    print_table(("tensor", "contender", "round trip, µs", "of Orchestrator.predict's"), rows)


def _round_trip(who: str, case: str, folder: str) -> float:
    return float(called("orchestrator_calls.py", who, case, folder))


def load(rounds: int, folder: str) -> None:
    """MobileNetV2, eight clients, two replicas."""
    network = next(one for one in NETWORKS if one.name == "mobilenetv2")
    if not network.twin.is_file():
        print(f"{network.twin} is not there: run bench/single.py mobilenetv2 first; left out")
        return
    arguments = (str(network.twin), str(network.results), "8", "300")
    names = {
        "two plain processes": "processes",
        "Orchestrator, 2 replicas": "rankmesh",
        "the same, inputs in place": "buffers",
        "two plain processes again (control)": "processes",
    }
    found = interleaved(
        {name: partial(_rate, who, arguments) for name, who in names.items()}, rounds
    )
    base = found["two plain processes"]
    print_table(
        ("8 clients", "requests/s", "of the plain processes'"),
        [(name, spread(rates, 1), spread(ratios(rates, base))) for name, rates in found.items()],
    )
    verdict("throughput", median(ratios(found["Orchestrator, 2 replicas"], base)), 0.95, least=True)


def _rate(who: str, arguments: tuple[str, ...]) -> float:
    return float(called("orchestrator_load.py", who, *arguments))


def tensor_parallel(rounds: int, folder: str) -> None:
    """Tensor-parallel BERT-base through the orchestrator and as `rankmesh run`."""
    bert = bert_folder()
    expected = Path(folder) / "bert-expected.npz"
    subprocess.run(
        [
            sys.executable,
            str(_HERE / "alone.py"),
            str(bert / "bert.onnx"),
            str(bert / "bert.npz"),
            "2",
            "1",
            str(expected),
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    found = interleaved(
        {
            "rankmesh run": lambda: spmd(bert, 20, expected).latency,
            "rankmesh run again (control)": lambda: spmd(bert, 20, expected).latency,
            "Orchestrator": lambda: float(called("orchestrator.py", "--bert", str(bert))),
        },
        rounds,
    )
    base = found["rankmesh run"]
    print_table(
        ("BERT-base, 2 ranks", "latency, ms", "of rankmesh run's"),
        [(name, spread(times, 1), spread(ratios(times, base))) for name, times in found.items()],
    )
    verdict("latency", median(ratios(found["Orchestrator"], base)), 1.03)


def bert_latency(bert: str) -> None:
    """The milliseconds of a request, in this process."""
    from rankmesh import Orchestrator

    array = np.load(f"{bert}/bert.npz")["in_0"]
    with Orchestrator(f"{bert}/bert_rank{{rank}}.onnx") as orchestrator:
        orchestrator.predict(array)
        seconds = []
        for _ in range(20):
            start = time.perf_counter()
            orchestrator.predict(array)
            seconds.append(time.perf_counter() - start)
    print(median(seconds) * 1e3)


def faults(seconds: float) -> None:
    """kill -9 and SIGSTOP of random ranks under load."""
    for how, bar in (("kill", 0.010), ("stop", 1.5)):
        found = json.loads(called("orchestrator_faults.py", how, str(seconds)))
        print(
            f"{how}: {len(found['detected'])} times, {found['answered']} answered, "
            f"{found['failed']} failed, "
            f"{found['wrong']} wrong; known after "
            f"{spread([1e3 * one for one in found['detected']], 1)} ms, the "
            f"replica answers again after {spread(found['again'], 2)} s"
        )
        verdict(f"{how}: failed or wrong", found["failed"] + found["wrong"], 0)
        verdict(f"{how}: known after, s", median(found["detected"]), bar)
        verdict(f"{how}: answers again, s", median(found["again"]), 1.5 if how == "kill" else 2.5)


def start(rounds: int, folder: str) -> None:
    """From the call to the first answer, in a new process whose imports do not count."""
    bert = f"{bert_folder()}/bert_rank{{rank}}.onnx"
    cases = {
        "sample": (str(_SAMPLE), "none", 0.7),
        "BERT-base, warm model cache": (bert, "warm", 1.0),
        "BERT-base, no model cache": (bert, "none", 1.5),
    }
    rows = []
    for name, (model, cache, bar) in cases.items():
        times = [undisturbed(partial(_cold, model, cache, folder)) for _ in range(rounds)]
        rows.append((name, spread(times, 2)))
        verdict(f"cold start, {name}, s", median(times), bar)
    print_table(("2 ranks", "from the call to the first answer, s"), rows)


def _cold(model: str, cache: str, folder: str) -> float:
    store = Path(folder) / ("warm" if cache == "warm" else f"cold-{time.monotonic_ns()}")
    if cache == "warm" and not store.is_dir():
        _first_answer(model, store, stay=True)
    return _first_answer(model, store)


def _first_answer(model: str, store: Path, stay: bool = False) -> float:
    environment = {**os.environ, "RANKMESH_CACHE": str(store)}
    command = [
        sys.executable,
        str(_HERE / "orchestrator.py"),
        "--cold",
        model,
        *(["--stay"] if stay else []),
    ]
    return float(
        subprocess.run(
            command, check=True, stdout=subprocess.PIPE, text=True, env=environment
        ).stdout
    )


def cold_start(model: str, stay: bool) -> None:
    """The seconds from the call to the first answer, in this process."""
    from rankmesh import Orchestrator

    start = time.perf_counter()
    with Orchestrator(model, 2) as orchestrator:
        specs = orchestrator.inputs()
        orchestrator.predict(*[np.ones(spec.shape or (), spec.dtype) for spec in specs])
        print(time.perf_counter() - start)
        if stay:
            time.sleep(10)  # until the model cache has been written


def main() -> None:
    parser = argparse.ArgumentParser(
        description="The orchestrator against pipes, pools, Ray and plain processes."
    )
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--fault-seconds", type=float, default=60)
    parser.add_argument("--bert", help=argparse.SUPPRESS)
    parser.add_argument("--cold", help=argparse.SUPPRESS)
    parser.add_argument("--stay", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bert or options.cold:
        bert_latency(options.bert) if options.bert else cold_start(options.cold, options.stay)
        return
    print_machine("onnxruntime", "numpy", *(["ray"] if find_spec("ray") else []))
    with tempfile.TemporaryDirectory() as scratch:
        write(Path(scratch))
        parts = {
            "calls": lambda: calls(options.rounds, scratch),
            "load": lambda: load(options.rounds, scratch),
            "tensor-parallel": lambda: tensor_parallel(options.rounds, scratch),
            "faults": lambda: faults(options.fault_seconds),
            "growth": lambda: growth(options.rounds, scratch),
            "start": lambda: start(options.rounds, scratch),
        }
        unknown = set(options.parts) - parts.keys()
        if unknown:
            sys.exit(f"no part is called {min(unknown)}: choose from {', '.join(parts)}")
        for name in options.parts or parts:
            print(f"\n{name}")
            parts[name]()


if __name__ == "__main__":
    main()
