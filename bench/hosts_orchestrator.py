"""Requests to a rank on another host, against a bare connection; the death of a rank, and a cut.

    python bench/hosts_orchestrator.py [--rounds 9] [--without-faults] [--ray-python PYTHON]

The hosts are network namespaces with a virtual cable between them, which needs root and `ip`, and
have one core each: on a core that both use, a message would wake no other core, as no two hosts
can. An agent is on one, the orchestrator on the other. A request of 4 KB has an answer of 4 KB, and
one of 16 MB, too; inputs lie in memory of `Orchestrator.buffers`. Rounds are interleaved, and each
contender runs in processes of its own; tensors in clear run twice per round as a control. The table
gives medians of the rounds' medians, and the shares of the bare connection. PYTHON is the
interpreter of an environment that has Ray and numpy: then a call of Ray's own actor is measured
afterwards, as its daemons would disturb the others.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from hosts_allreduce import hosts
from hosts_orchestrator_program import LARGE, SMALL
from hosts_ray import measured
from onnx import TensorProto, helper, save

from rankmesh.comm.transport.curve import make_keys
from rankmesh.comm.transport.key_file import write_keys

_IP = shutil.which("ip") or "ip"
_TASKSET = shutil.which("taskset") or "taskset"
_PROGRAM = str(Path(__file__).with_name("hosts_orchestrator_program.py"))
_HERE, _THERE = "10.78.0.1", "10.78.0.2"
_LISTEN = f"{_HERE}:29610"
_CONTENDERS = {"in clear": "10.78.0.0/24", "in clear again": "10.78.0.0/24", "encrypted": "-"}
_BARE = "bare connection"


def write_models(folder: Path) -> None:
    """For each size a model that gives the negatives of its first 1,024 numbers."""
    for size in (SMALL, LARGE):
        tensors = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, [count])
            for name, count in (("x", size // 4), ("y", SMALL // 4))
        ]
        bounds = [
            helper.make_tensor(name, TensorProto.INT64, [1], [value])
            for name, value in (("from", 0), ("to", SMALL // 4))
        ]
        nodes = [
            helper.make_node("Slice", ["x", "from", "to"], ["head"]),
            helper.make_node("Neg", ["head"], ["y"]),
        ]
        graph = helper.make_graph(nodes, "head", tensors[:1], tensors[1:], bounds)
        opset = [helper.make_opsetid("", 20)]
        save(helper.make_model(graph, opset_imports=opset, ir_version=10), folder / f"{size}.onnx")


def start(host: str, *words: str) -> subprocess.Popen[str]:
    """Start a Python program on one of the hosts, with that host's core."""
    command = [_IP, "netns", "exec", host, sys.executable, *words]
    cores = sorted(os.sched_getaffinity(0))
    core = cores[int(host.rpartition("-")[2]) % len(cores)]
    return subprocess.Popen(
        [_TASKSET, "--cpu-list", str(core), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def agent(host: str, key: str, name: str, ranks: int) -> subprocess.Popen[str]:
    """Start an agent on one of the hosts."""
    words = ["-m", "rankmesh", "agent", "--join", _LISTEN, "--key-file", key, "--name", name]
    return start(host, *words, "--ranks", str(ranks), "--host-timeout", "2")


def bare(names: list[str]) -> dict[str, float]:
    """The round trips of one round over a bare connection."""
    server = start(names[1], _PROGRAM, "server", _THERE)
    time.sleep(1.0)
    found: dict[str, float] = json.loads(
        start(names[0], _PROGRAM, "client", _THERE).communicate()[0]
    )
    server.communicate(timeout=30)
    return found


def ours(names: list[str], folder: str, network: str) -> dict[str, float]:
    """The round trips of one round of requests."""
    key = f"{folder}/key"
    far = agent(names[1], key, "far", 2)
    program = start(names[0], _PROGRAM, "orchestrator", _LISTEN, key, folder, network)
    found: dict[str, float] = json.loads(program.communicate(timeout=300)[0])
    far.communicate(timeout=30)
    return found


def faults(names: list[str], folder: str) -> dict[str, float]:
    """What a dead rank and a cut take."""
    key = f"{folder}/key"
    agents = [agent(names[0], key, "near", 1), agent(names[1], key, "far", 1)]
    program = start(names[0], _PROGRAM, "faults", _LISTEN, key, folder, str(agents[1].pid))
    assert program.stdout is not None and program.stdin is not None
    if program.stdout.readline().strip() != "cut":
        sys.exit("the program of faults has failed")
    subprocess.run([_IP, "-n", names[1], "link", "set", "cable", "down"], check=True)
    print("down", file=program.stdin, flush=True)
    found: dict[str, float] = json.loads(program.communicate(timeout=300)[0])
    for one in agents:
        one.terminate()
        one.communicate(timeout=30)
    return found


def print_row(name: str, rows: list[dict[str, float]], bare: list[dict[str, float]]) -> None:
    """The medians of a contender, and how they compare with those of a bare connection."""
    small, large = (median(row[str(size)] for row in rows) for size in (SMALL, LARGE))
    base_small, base_large = (median(row[str(size)] for row in bare) for size in (SMALL, LARGE))
    print(
        f"{name:16} | 4 KB {small:7.0f} us, x{small / base_small:.2f} | 16 MB "
        f"{LARGE / large / 1e3:5.2f} GB/s, {base_large / large:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--without-faults", action="store_true")
    parser.add_argument("--ray-python", default="")
    options = parser.parse_args()
    results: dict[str, list[dict[str, float]]] = {_BARE: [], **{name: [] for name in _CONTENDERS}}
    with hosts() as names, tempfile.TemporaryDirectory() as folder:
        write_models(Path(folder))
        write_keys(f"{folder}/key", make_keys())
        for _ in range(options.rounds):
            results[_BARE].append(bare(names))
            for name, network in _CONTENDERS.items():
                results[name].append(ours(names, folder, network))
        for name, rows in results.items():
            print_row(name, rows, results[_BARE])
        if options.ray_python:
            rows = measured(options.ray_python, names, (_HERE, _THERE), options.rounds)
            print_row("Ray actor", rows, results[_BARE])
        if not options.without_faults:
            for what, value in faults(names, folder).items():
                print(f"{what:32} {value:.2f}")


if __name__ == "__main__":
    main()
