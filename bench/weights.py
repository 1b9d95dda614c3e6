"""Sharing and updating weights: memory of four processes, speed, builds, handing over, updates.

    python bench/weights.py [--rounds 9] [--chart docs/weights.svg]

The model is a chain of 16 Dense layers with 64 MiB of weights each, in a data file. `private`:
every process has its own. `live`: one process owns the weights, three use them. `packed`: the model
cache. Each process reports its own share (Pss_Anon + Pss_File); memory files count once, mapped or
not. One thread computes in each process; requests are measured in processor time, so that other
processes disturb less. Speeds are ratios within a round.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from chart import bars
from models import cache_folder, split_folder, updating_folder
from report import print_machine, print_table, ratios, spread
from rounds import interleaved
from split_mindir import WEIGHT_BYTES

_PROCESS = Path(__file__).with_name("weights_process.py")
_MIB = 2**20
_COUNT = 4
_MEMORY_BAR, _BASE = 1.05, 80 * 10**6
_REQUESTS = 12


class Process:
    """A weights_process.py; a context manager that ends it."""

    def __init__(self, cache: str = "") -> None:
        environment = {key: value for key, value in os.environ.items() if key != "RANKMESH_CACHE"}
        self._process = subprocess.Popen(
            [sys.executable, str(_PROCESS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env={**environment, **({"RANKMESH_CACHE": cache} if cache else {})},
        )
        self.pid = self._process.pid

    def __enter__(self) -> Process:
        self._line()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def __call__(self, act: str, *arguments: Any) -> Any:
        assert self._process.stdin
        self._process.stdin.write(json.dumps([act, *arguments]) + "\n")
        return json.loads(self._line())

    def _line(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"a process ended with {self._process.wait()}")
        return line


class Four:
    """Four processes that run the model, in one of the modes; a context manager."""

    def __init__(self, mode: str, cache: str) -> None:
        self._mode, self._stack = mode, ExitStack()
        self.all = [Process(cache if mode == "packed" else "") for _ in range(_COUNT)]

    def __enter__(self) -> Four:
        for process in self.all:
            self._stack.enter_context(process)
        pids = ",".join(str(process.pid) for process in self.all)
        config = {"shareable_weight_pid_list": pids} if self._mode == "live" else {}
        self.builds = []
        for process in self.all:
            built = process("build", str(_dense()), config, None)
            self.builds.append(built["seconds"])
            if self._mode == "live" and len(self.builds) == 1:
                config = {"shareable_weight_mem_handle": built["handle"]}
            process("predict", 2)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def memory(self) -> int:
        """Bytes of all four together."""
        found = [process("memory") for process in self.all]
        files: dict[str, int] = {}
        for one in found:
            files.update(one["files"])
        return sum(one["own"] for one in found) + sum(files.values())


def _dense() -> Path:
    return split_folder() / "dense_graph.mindir"


def memory(cache: str, chart: str) -> None:
    """Print what four processes take, and whether the bar holds."""
    sums, rows = {}, []
    _built({}, cache)  # fills the cache
    for mode in ("private", "live", "packed"):
        with Four(mode, cache) as four:
            sums[mode] = four.memory()
            if mode == "live":
                four.all[0]("update", "fc03.weight", 1)
                sums["live, after an update of 64 MiB"] = four.memory()
    for mode, size in sums.items():
        extra = 2 * WEIGHT_BYTES // 16 if "update" in mode else 0
        bar = int(_MEMORY_BAR * (WEIGHT_BYTES + extra)) + _COUNT * _BASE
        rows.append(
            (
                mode,
                f"{size / _MIB:.0f}",
                f"{size / WEIGHT_BYTES:.2f}",
                f"{bar / _MIB:.0f}",
                "-" if mode == "private" else _verdict(size <= bar),
            )
        )
    print_table(("four processes", "sum, MiB", "of one copy", "bar, MiB", ""), rows)
    print()
    if chart:
        Path(chart).write_text(
            bars(
                "Memory of four processes with one model of 1 GiB, MiB",
                {mode: size / _MIB for mode, size in sums.items()},
            )
        )


def builds(cache: str, rounds: int) -> None:
    """Print how long users take to build."""
    _built({}, cache)  # fills the cache
    with Process() as process:
        owner = _Owner(process)
        results = interleaved(
            {
                "private": lambda: _built({}),
                "private, control": lambda: _built({}),
                "live, a user": lambda: _built_user(owner),
                "packed, a user": lambda: _built({}, cache),
            },
            rounds,
        )
    first = interleaved({"": lambda: _saved(tempfile.mkdtemp(dir=os.path.dirname(cache)))}, 3)[""]
    base = results["private"]
    rows = [(name, spread(found), spread(ratios(found, base))) for name, found in results.items()]
    print_table(("build", "s", "of a private one"), rows)
    print(
        f"packed, the one that saves: {spread([usable for usable, _ in first])} s until the "
        "model can be used, "
        f"{spread([saved for _, saved in first])} s until it is saved behind it"
    )
    _bar("live build of a user", median(ratios(results["live, a user"], base)), 0.1)
    _bar(
        "packed build of a user (tensors of 64 MiB)",
        median(ratios(results["packed, a user"], base)),
        1.4,
    )
    _bar(
        "packed build that saves (likewise)",
        median(usable for usable, _ in first) / median(base),
        8.0,
    )


class _Owner:
    """A process that owns the weights, and lists whom it is told to."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.handle = process("build", str(_dense()), {"shareable_weight_pid_list": "0"}, None)[
            "handle"
        ]

    def allow(self, pid: int) -> None:
        self._process("allow", pid)


def _built(config: dict[str, str], cache: str = "") -> float:
    with Process(cache) as process:
        return float(process("build", str(_dense()), config, None)["seconds"])


def _saved(cache: str) -> tuple[float, float]:
    """Seconds until a model can be used, and until its build is in the empty `cache`, which goes
    again.
    """
    with Process(cache) as process:
        usable = float(process("build", str(_dense()), {}, None)["seconds"])
        seconds = usable, float(process("saved"))
    shutil.rmtree(cache)
    return seconds


def _built_user(owner: _Owner) -> float:
    with Process() as process:
        owner.allow(process.pid)
        return float(
            process("build", str(_dense()), {"shareable_weight_mem_handle": owner.handle}, None)[
                "seconds"
            ]
        )


def speed(cache: str, rounds: int) -> None:
    """Print the speed of shared weights against sessions of their own."""
    for rows in (1, 64):
        _speed(cache, rounds, rows)


def _speed(cache: str, rounds: int, rows: int) -> None:
    twin = str(split_folder() / "dense.onnx")

    def session(prepacked: bool) -> Callable[[], float]:
        return lambda: _timed(lambda process: process("session", twin, rows, prepacked))

    def ours(config: dict[str, str], folder: str = "") -> Callable[[], float]:
        return lambda: _timed(lambda process: process("build", str(_dense()), config, rows), folder)

    ours({}, cache)()  # fills the cache for these rows
    found = interleaved(
        {
            "session": session(True),
            "session, disable_prepacking": session(False),
            "private": ours({}),
            "live": ours({"shareable_weight_pid_list": "0"}),
            "packed": ours({}, cache),
        },
        rounds,
    )
    against = {"live": "session, disable_prepacking", "packed": "session", "private": "session"}
    table = [
        (
            name,
            spread([1e3 * s for s in seconds], 1),
            against.get(name, ""),
            spread(ratios(found[against[name]], seconds)) if name in against else "",
        )
        for name, seconds in found.items()
    ]
    print_table((f"{rows} rows", "ms of a processor", "against", "speed"), table)
    print(f"live against a prepacked session: {spread(ratios(found['session'], found['live']))}")
    for name in ("live", "packed"):
        _bar(
            f"{name}, speed at {rows} rows",
            -median(ratios(found[against[name]], found[name])),
            -0.97,
        )


def _timed(build: Callable[[Process], Any], cache: str = "") -> float:
    with Process(cache) as process:
        build(process)
        process("predict", 2)
        return median(process("predict", _REQUESTS))


def handing_over() -> None:
    """Print how long the descriptor takes, mapping included."""
    with Process() as owner, Process() as user:
        seconds = [1e3 * s for s in user("attach", owner("own", user.pid), 200)]
    print(f"handing over a file of 64 MiB: {spread(seconds)} ms")
    _bar("handing over, ms", median(seconds), 1.0)


def updates(rounds: int) -> None:
    """Print what an update costs, and what requests notice of it."""
    with Process() as process:
        process("build", str(updating_folder() / "table.onnx"), {}, None)
        copies = process("update", "table", 5 * rounds)
        pauses = [process("pauses", "table", 20) for _ in range(3)]
    print(
        f"update of 64 MiB: {spread([1e3 * a for a, _ in copies], 1)} ms, memcpy "
        f"{spread([1e3 * b for _, b in copies], 1)} ms, ratio {spread([a / b for a, b in copies])}"
    )
    _bar("update against memcpy", median(a / b for a, b in copies), 1.3)
    extra = [1e3 * (one["update"] - one["rest"]) for one in pauses]
    print(
        f"a request takes {1e3 * pauses[0]['request']:.3f} ms; the longest during an update "
        f"{spread([1e3 * one['update'] for one in pauses])} ms, in as long a time at rest "
        f"{spread([1e3 * one['rest'] for one in pauses])} ms"
    )
    _bar("pause, ms", median(extra), 1.0)
    found = interleaved({"at rest": lambda: _rate(0.0), "updated": lambda: _rate(10.0)}, rounds)
    share = ratios(found["updated"], found["at rest"])
    print(
        f"requests per second {spread(found['at rest'], 1)}; while 16 MiB are updated ten times "
        "a second "
        f"{spread(found['updated'], 1)}, ratio {spread(share)}"
    )
    _bar("throughput under updates", -median(share), -0.9)


def _rate(updates_per_second: float) -> float:
    """Requests per second; in a process that ends with it, or its time would count as a stranger's
    (rounds.py).
    """
    with Process() as process:
        process("build", str(updating_folder() / "dense.onnx"), {}, None)
        process("rate", "w0", 10.0, 1.0)  # makes room for updates
        return float(process("rate", "w0", updates_per_second, 3.0))


def _verdict(holds: bool) -> str:
    return "holds" if holds else "MISSED"


def _bar(what: str, value: float, bar: float) -> None:
    """A line about a bar that a value is to stay below; both negated where it is to stay above."""
    print(f"{what}: {abs(value):.3f}, bar {abs(bar)}: {_verdict(value <= bar)}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Sharing and updating weights.")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--chart", default="", help="where to write the chart of memory (SVG)")
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help="memory, builds, speed, handing-over, updates"
    )
    options = parser.parse_args()
    if not find_spec("onnxruntime"):
        sys.exit("onnxruntime is not installed: pip install 'rankmesh[cpu]'")
    print_machine("onnxruntime", "onnx", "numpy")
    split_folder()
    with tempfile.TemporaryDirectory(dir=cache_folder(), prefix="weights-") as folder:
        cache = os.path.join(folder, "cache")
        parts: dict[str, Callable[[], None]] = {
            "memory": lambda: memory(cache, options.chart),
            "builds": lambda: builds(cache, options.rounds),
            "speed": lambda: speed(cache, options.rounds),
            "handing-over": handing_over,
            "updates": lambda: updates(options.rounds),
        }
        for name in options.parts or parts:
            parts[name]()


if __name__ == "__main__":
    main()
