"""Tensor-parallel BERT-base on two ranks of one thread against onnxruntime alone with two threads.

    python bench/tensor_parallel.py [--rounds 9] [--requests 20]

Every round starts each contender afresh in processes of its own, one contender after the other, so
that no idle thread pool takes part. The control is onnxruntime alone once more.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from statistics import median
from typing import NamedTuple

from models import bert_folder
from report import print_machine, print_table, ratios, spread
from rounds import interleaved

BAR = 1.05
OURS = "rankmesh run, 2 ranks x 1 thread"
MPI_AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
_ALONE = Path(__file__).with_name("alone.py")
_LATENCY = re.compile(r"median ([\d.]+) ms.*in collectives \(\w+\) ([\d.]+)%")
_ERROR = re.compile(r"^OK: .*largest relative error (\S+)$", re.MULTILINE)


class Round(NamedTuple):
    """One contender's round: the median latency in ms, and of Rankmesh more."""

    latency: float
    collectives: float = 0.0
    error: float = 0.0


def alone(folder: Path, requests: int, result: Path) -> Round:
    """onnxruntime on the unsliced twin, two threads."""
    command = [
        sys.executable,
        str(_ALONE),
        str(folder / "bert.onnx"),
        str(folder / "bert.npz"),
        "2",
        str(requests),
        str(result),
    ]
    seconds = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return Round(median(seconds) * 1e3)


def rankmesh(folder: Path, requests: int, expected: Path, launcher: tuple[str, ...] = ()) -> Round:
    """`rankmesh run` on the two shards; fails unless both ranks give the unsliced twin's output."""
    command = [
        *launcher,
        sys.executable,
        "-m",
        "rankmesh",
        "run",
        str(folder / "bert_rank{rank}.onnx"),
        "--inputs",
        str(folder / "bert.npz"),
        "--expect",
        str(expected),
        "--repeat",
        str(requests),
        "--device",
        "cpu",
    ]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, **MPI_AS_ROOT}
    )
    latency, error = _LATENCY.search(done.stdout), _ERROR.search(done.stdout)
    if done.returncode or not latency or not error:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}")
    return Round(float(latency[1]), float(latency[2]), float(error[1]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Tensor-parallel BERT-base: 2 ranks x 1 thread against 1 x 2."
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--requests", type=int, default=20, help="per contender and round")
    options = parser.parse_args()
    if not find_spec("onnxruntime"):
        sys.exit("onnxruntime is not installed: pip install 'rankmesh[cpu]'")
    print_machine("onnxruntime", "numpy")
    folder = bert_folder()
    with tempfile.TemporaryDirectory() as scratch:
        reference = Path(scratch) / "reference.npz"
        alone(folder, 1, reference)
        contenders = {
            "onnxruntime alone, 2 threads": lambda: alone(
                folder, options.requests, Path(scratch) / "again.npz"
            ),
            "the same again (control)": lambda: alone(
                folder, options.requests, Path(scratch) / "again.npz"
            ),
            OURS: lambda: rankmesh(folder, options.requests, reference),
        }
        mpirun = find_mpirun()
        if mpirun:
            contenders["mpirun -n 2 rankmesh run (mpi4py)"] = lambda: rankmesh(
                folder, options.requests, reference, (mpirun, "-n", "2")
            )
        else:
            print("mpirun is not installed (rankmesh[mpi]): left out")
        results = interleaved(contenders, options.rounds)
    report(results)


def find_mpirun() -> str | None:
    """The mpirun beside this Python, or on the PATH."""
    return which(
        "mpirun", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    )


def report(results: dict[str, list[Round]]) -> None:
    """Print the table and whether the bar holds."""
    base = next(iter(results.values()))
    rows = []
    for name, found in results.items():
        share = median(r.collectives for r in found)
        rows.append(
            (
                name,
                spread([r.latency for r in found], 1),
                spread(_ratios(found, base)),
                f"{share:.1f} %" if share else "-",
            )
        )
    print_table(("contender", "latency, ms", "ratio, round by round", "in collectives"), rows)
    worst = max(r.error for found in results.values() for r in found)
    print(f"{len(base)} rounds; largest relative error of an output {worst:.1e} (allowed 1e-4)")
    for name, found in list(results.items())[2:]:
        ratio = median(_ratios(found, base))
        print(f"{name}: ratio {ratio:.3f}, bar {BAR}: {'holds' if ratio <= BAR else 'MISSED'}")


def _ratios(found: list[Round], base: list[Round]) -> list[float]:
    return ratios([r.latency for r in found], [r.latency for r in base])


if __name__ == "__main__":
    main()
