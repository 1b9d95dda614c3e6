"""Private memory and time that it takes to read and build models with 1 GiB of weights in a data
file.

    python bench/memory.py [--rounds 9]

`dense` is a chain of Dense layers, every weight of which onnxruntime repacks; `table` is one
embedding table, which it reads where it lies. Each build is a process of its own, which has
imported everything before; it is watched from outside every 10 ms in rounds that are not timed.
Growth is over the same process just before.
"""

from __future__ import annotations

import argparse
import json
import select
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import NamedTuple

from models import split_folder
from report import print_machine, print_table, ratios, spread
from rounds import interleaved
from split_mindir import WEIGHT_BYTES

BAR = 1.3
_BUILDING = Path(__file__).with_name("building.py")
_WATCH_EVERY = 0.01
_MIB = 2**20
_FILES = {"rankmesh": "{}_graph.mindir", "onnxruntime": "{}.onnx"}


class Growth(NamedTuple):
    """Bytes of private memory over the idle process, and dirty bytes of the mapped data file."""

    peak: int
    after: int
    dirty_file: int


class Build:
    """One process that builds one model; a context manager that ends it."""

    def __init__(self, who: str, path: Path) -> None:
        self._name = f"{who}, {path.name}"
        self._process = subprocess.Popen(
            [sys.executable, str(_BUILDING), who, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        assert self._process.stdin and self._process.stdout
        self._input, self._output = self._process.stdin, self._process.stdout

    def __enter__(self) -> Build:
        self._line()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def seconds(self) -> float:
        """Build; how long it took."""
        self._start()
        return float(json.loads(self._line()))

    def growth(self) -> Growth:
        """Build, and watch the private memory meanwhile."""
        idle = peak = self._private()
        self._start()
        while not select.select([self._output], [], [], _WATCH_EVERY)[0]:
            peak = max(peak, self._private())
        self._line()
        after = self._private()
        return Growth(max(peak, after) - idle, after - idle, self._dirty_file())

    def _start(self) -> None:
        self._input.write("\n")

    def _line(self) -> str:
        line = self._output.readline()
        if not line:
            sys.exit(f"building with {self._name} ended with {self._process.wait()}")
        return line

    def _private(self) -> int:
        """Anonymous memory and whatever else only this process has written: Private_Dirty."""
        return _field(Path(f"/proc/{self._process.pid}/smaps_rollup").read_text(), "Private_Dirty")

    def _dirty_file(self) -> int:
        """Dirty bytes of the mappings of the data file."""
        maps = Path(f"/proc/{self._process.pid}/smaps").read_text().split("VmFlags:")
        return sum(_field(part, "Private_Dirty") for part in maps if "/data_0\n" in part)


def _field(text: str, name: str) -> int:
    """A field of smaps in bytes."""
    return int(text.partition(f"{name}:")[2].split()[0]) * 1024


def built_growth(who: str, path: Path) -> Growth:
    with Build(who, path) as build:
        return build.growth()


def built_seconds(who: str, path: Path) -> float:
    with Build(who, path) as build:
        return build.seconds()


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Memory and time of building models with 1 GiB of weights."
    )
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    if not find_spec("onnxruntime"):
        sys.exit("onnxruntime is not installed: pip install 'rankmesh[cpu]'")
    print_machine("onnxruntime", "onnx", "numpy", "protobuf")
    split_folder()
    print_memory()
    print_times(options.rounds)


def print_memory() -> None:
    """Print how much private memory building takes, and whether the bar holds."""
    rows, worst = [], 0.0
    for model in ("dense", "table"):
        for who in _FILES:
            growth = built_growth(who, split_folder() / _FILES[who].format(model))
            shares = (growth.peak / WEIGHT_BYTES, growth.after / WEIGHT_BYTES)
            worst = max(worst, shares[0]) if who == "rankmesh" else worst
            rows.append(
                (model, who, *(f"{x / _MIB:.0f}" for x in growth), *(f"{x:.3f}" for x in shares))
            )
    print_table(
        (
            "model",
            "built by",
            "growth at peak, MiB",
            "after, MiB",
            "dirty pages of the file, MiB",
            "peak / weights",
            "after / weights",
        ),
        rows,
    )
    print(
        f"weights {WEIGHT_BYTES / _MIB:.0f} MiB; bar {BAR} at peak: "
        f"{'holds' if worst <= BAR else 'MISSED'}\n"
    )


def print_times(rounds: int) -> None:
    """Print how long building takes, beside onnxruntime's own load of the same weights."""
    folder = split_folder()
    results = interleaved(
        {
            "onnxruntime alone, dense.onnx": lambda: built_seconds(
                "onnxruntime", folder / "dense.onnx"
            ),
            "the same again (control)": lambda: built_seconds("onnxruntime", folder / "dense.onnx"),
            "rankmesh, dense_graph.mindir": lambda: built_seconds(
                "rankmesh", folder / "dense_graph.mindir"
            ),
        },
        rounds,
    )
    base, _, ours = results.values()
    print_table(
        ("build", "s", "ratio, round by round"),
        [(name, spread(found), spread(ratios(found, base))) for name, found in results.items()],
    )
    print(f"{rounds} rounds; ratio {median(ratios(ours, base)):.3f}")


if __name__ == "__main__":
    main()
