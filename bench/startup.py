"""How long `rankmesh run` takes for the committed samples, from its start to its last output, and
where the time goes.

    python bench/startup.py [--rounds 9]

Byte code is cached, as it is after a user's first run, in a temporary folder.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from report import print_machine, print_table, spread
from rounds import interleaved

BAR = 0.8
_SAMPLE = Path(__file__).resolve().parents[1] / "launch" / "sample"
_SAMPLES = {
    "llama": ("llama_rank{rank}.mindir", "llama.npz"),
    "Matmul": ("Matmul.mindir", "Matmul.npz"),
}
_IMPORT = re.compile(r"^(\[rank 0\] )?import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)$", re.MULTILINE)
_LIBRARIES = re.compile(r"/site-packages/(torch|onnxruntime|onnx|numpy|mpi4py|zmq)/")
_SHOWN = 10


def cache_byte_code(folder: str) -> None:
    """Have this process's children keep their byte code in `folder`, whatever the environment
    said."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = folder
    for sample in _SAMPLES:
        seconds(command(sample))


def command(sample: str) -> list[str]:
    model, arrays = _SAMPLES[sample]
    return [
        sys.executable,
        "-m",
        "rankmesh",
        "run",
        str(_SAMPLE / model),
        "--inputs",
        str(_SAMPLE / arrays),
        "--expect",
        str(_SAMPLE / arrays),
        "--device",
        "cpu",
    ]


def seconds(arguments: list[str]) -> float:
    """From the start of a process to its end; it must succeed."""
    start = time.perf_counter()
    done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    end = time.perf_counter()
    if done.returncode:
        sys.exit(f"{' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}")
    return end - start


def import_times(sample: str) -> tuple[Counter[str], Counter[str]]:
    """Microseconds of imports by package in one run: of the launcher, and of rank 0."""
    launcher: Counter[str] = Counter()
    rank: Counter[str] = Counter()
    done = subprocess.run(
        command(sample),
        env={**os.environ, "PYTHONPROFILEIMPORTTIME": "1"},
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    for prefix, microseconds, module in _IMPORT.findall(done.stderr):
        (rank if prefix else launcher)[_package(module)] += int(microseconds)
    return launcher, rank


def libraries(sample: str) -> list[set[str]]:
    """Which libraries each process of a run had mapped, the launcher first; looked at until the
    end.
    """
    found: dict[int, set[str]] = {}
    with subprocess.Popen(
        command(sample), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as launcher:
        while launcher.poll() is None:
            for pid in (launcher.pid, *_children(launcher.pid)):
                found.setdefault(pid, set()).update(_mapped(pid))
            time.sleep(0.002)
    return list(found.values())


def _package(module: str) -> str:
    name = module.partition(".")[0]
    return "Python's own" if name in sys.stdlib_module_names else name


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _mapped(pid: int) -> list[str]:
    try:
        return _LIBRARIES.findall(Path(f"/proc/{pid}/maps").read_text())
    except OSError:
        return []


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Start to last output of `rankmesh run` on the samples."
    )
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    if not find_spec("onnxruntime"):
        sys.exit("onnxruntime is not installed: pip install 'rankmesh[cpu]'")
    print_machine("onnxruntime", "onnx", "numpy", "typer")
    with tempfile.TemporaryDirectory() as folder:
        cache_byte_code(folder)
        print_times(options.rounds)
        print_imports()
        print_libraries()


def print_times(rounds: int) -> None:
    """Print how long the samples take, beside what Python alone takes."""
    results = interleaved(
        {
            "python -c pass": partial(seconds, [sys.executable, "-c", "pass"]),
            **{
                f"rankmesh run {name}, 2 ranks": partial(seconds, command(name))
                for name in _SAMPLES
            },
        },
        rounds,
    )
    print_table(
        ("process", "start to end, s"), [(name, spread(found)) for name, found in results.items()]
    )
    worst = max(map(median, results.values()))
    print(
        f"{rounds} rounds; median {worst:.3f} s, bar {BAR} s: "
        f"{'holds' if worst <= BAR else 'MISSED'}\n"
    )


def print_imports() -> None:
    """Print which package's imports take how long."""
    launcher, rank = import_times("llama")
    names = [name for name, _ in (launcher + rank).most_common(_SHOWN)]
    rows = [(name, f"{launcher[name] / 1000:.0f}", f"{rank[name] / 1000:.0f}") for name in names]
    rows.append(("all", f"{launcher.total() / 1000:.0f}", f"{rank.total() / 1000:.0f}"))
    print_table(("imports of llama", "launcher, ms", "rank 0, ms"), rows)


def print_libraries() -> None:
    """Print what the processes of a run load, torch above all."""
    launcher, *ranks = libraries("llama")
    print(
        f"\nloaded by the launcher: {', '.join(sorted(launcher)) or 'none of them'}; "
        f"by the {len(ranks)} ranks: {', '.join(sorted(set.union(*ranks)))}"
    )
    if not find_spec("torch"):
        print("torch is not installed, so that nothing can import it")
    print(
        "torch in any process of the run: "
        f"{'YES' if any('torch' in one for one in (launcher, *ranks)) else 'no'}"
    )


if __name__ == "__main__":
    main()
