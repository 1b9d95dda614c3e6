"""What a launcher adds: the user's own script on two ranks, from start to end.

    python bench/launchers.py [--rounds 9]

The script is that of MindSpore Lite's distributed tutorial on the committed two-rank sample. The
base is two bare `python main.py` at once, each alone on one shard-sized model without collectives;
the control is the base once more.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from shutil import which

from report import print_machine, print_table, ratios, spread
from rounds import interleaved

SAMPLE = Path(__file__).parents[1] / "launch" / "sample"
SCRIPT = """
import sys, time
import numpy as np
import rankmesh as mslite
context = mslite.Context()
context.target = ["cpu"]
model = mslite.Model()
start = time.perf_counter()
model.build_from_file(sys.argv[1], mslite.ModelType.MINDIR, context)
built = time.perf_counter() - start
inputs = model.get_inputs()
for one in inputs:
    one.set_data_from_numpy(np.ones(one.shape, np.float32))
print(f"built in {built:.3f} s", model.predict(inputs)[0].get_data_to_numpy().flatten()[:3])
"""
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def timed(commands: list[list[str]], **environment: str) -> float:
    """Seconds until all of `commands`, started at once, have ended well."""
    start = time.perf_counter()
    running = [
        subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for command in commands
    ]
    said = [process.communicate()[0] for process in running]
    seconds = time.perf_counter() - start
    for process, text in zip(running, said, strict=True):
        if process.returncode:
            sys.exit(f"{process.args!r} ended with {process.returncode}:\n{text}")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(
        description="The time that launchers add to a script on two ranks."
    )
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as scratch:
        script = Path(scratch) / "main.py"
        script.write_text(SCRIPT)
        report(interleaved(contenders(script, Path(scratch)), rounds))


def contenders(script: Path, scratch: Path) -> dict[str, Callable[[], float]]:
    """What takes turns, as far as it is installed."""
    sliced = str(SAMPLE / "Matmul.mindir")
    whole = str(Path(__file__).parents[1] / "tests" / "data" / "mindir" / "mlp" / "mlp.mindir")
    python = [sys.executable, str(script)]
    found = {
        "bare python main.py x 2": lambda: timed([[*python, whole]] * 2),
        "the same again (control)": lambda: timed([[*python, whole]] * 2),
        "rankmesh launch": lambda: timed(
            [[sys.executable, "-m", "rankmesh", "launch", "--ranks", "2", str(script), sliced]]
        ),
    }
    mpirun = which(
        "mpirun", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    )
    if mpirun:
        found["mpirun -n 2"] = lambda: timed([[mpirun, "-n", "2", *python, sliced]], **MPI)
    else:
        print("mpirun is not installed (rankmesh[mpi]): left out")
    return found


def report(results: dict[str, list[float]]) -> None:
    """Print the table."""
    print_machine("onnxruntime", "numpy")
    base = next(iter(results.values()))
    print_table(
        ("contender", "start to end, s", "ratio, round by round"),
        [(name, spread(found), spread(ratios(found, base))) for name, found in results.items()],
    )


if __name__ == "__main__":
    main()
