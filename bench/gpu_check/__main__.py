"""The GPU check: runs all parts, each within its deadline, and writes their figures.

    bash launch/gpu_check.sh [--device gpu|cpu] [--output FOLDER] [PART ...]

FOLDER gets `gpu_check.json` and `gpu_check.md`, after each part anew, and the output of each part
as `PART.log`. With `--device cpu` the parts run as much as needs no GPU, on small models: that
proves the check itself.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from .figures import FAILED, SKIPPED, PartResult, table
from .part_process import run_part

DEADLINES = {
    "round_trip": 45.0,
    "weights": 60.0,
    "recovery": 45.0,
    "nccl": 30.0,
    "precision": 30.0,
    "compiled": 75.0,
    "one_gpu": 80.0,
    "graphs": 120.0,
    "conformance": 130.0,
}
"""Seconds for each part on a GPU, in the order in which they run: the longest last."""
_WHOLE = 470.0
"""Seconds for all parts on a GPU."""
_LONGER = {"gpu": 1.0, "cpu": 4.0}
"""The check of the check runs on processors that have other work."""
_PROBE = """
import json, torch
found = {"torch": torch.__version__, "gpu": "", "cuda": torch.version.cuda or ""}
if torch.cuda.is_available():
    one = torch.cuda.get_device_properties(0)
    found.update(gpu=one.name, memory=one.total_memory, capability=f"{one.major}.{one.minor}")
print(json.dumps(found))
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="gpu_check.sh", description=__doc__.partition("\n\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(DEADLINES))
    parser.add_argument("--device", choices=("gpu", "cpu"), default="gpu")
    parser.add_argument("--output", type=Path, default=Path("."), metavar="FOLDER")
    options = parser.parse_args()
    unknown = [name for name in options.parts if name not in DEADLINES]
    if unknown:
        parser.error(f"no part {unknown[0]!r}, expected some of {', '.join(DEADLINES)}")
    options.output.mkdir(parents=True, exist_ok=True)
    machine = _machine()
    print(f"{machine['gpu'] or 'no GPU'}; torch {machine['torch']}", flush=True)
    results: list[PartResult] = []
    end = time.monotonic() + _WHOLE * _LONGER[options.device]
    for part in options.parts or DEADLINES:
        left = end - time.monotonic()
        results.append(_result(part, options.device, str(machine["gpu"]), left, options.output))
        _write(options.output, machine, options.device, results)
        print(f"{part}: {results[-1].state}, {results[-1].seconds:.1f} s", flush=True)
    print(table(results))
    sys.exit(any(one.state == FAILED for one in results))


def _result(part: str, device: str, gpu: str, left: float, folder: Path) -> PartResult:
    if device == "gpu" and not gpu:
        return PartResult(part, SKIPPED, note="no GPU")
    if left < 1:
        return PartResult(part, SKIPPED, note="the time of the whole check is over")
    deadline = min(DEADLINES[part] * _LONGER[device], left)
    return run_part(part, device, deadline, folder / f"{part}.log")


def _machine() -> dict[str, object]:
    """The GPU, and what the figures depend on besides."""
    probe = subprocess.run(
        [sys.executable, "-P", "-c", _PROBE], capture_output=True, text=True, timeout=120
    )
    if probe.returncode:
        sys.exit(f"gpu_check: torch cannot be imported: {probe.stderr.strip().splitlines()[-1]}")
    cores = len(os.sched_getaffinity(0))
    return {"python": platform.python_version(), "cores": cores, **json.loads(probe.stdout)}


def _write(
    folder: Path, machine: dict[str, object], device: str, results: Sequence[PartResult]
) -> None:
    parts = [asdict(one) for one in results]
    made = {"device": device, "machine": machine, "parts": parts}
    (folder / "gpu_check.json").write_text(json.dumps(made, indent=1) + "\n")
    (folder / "gpu_check.md").write_text(table(results) + "\n")


if __name__ == "__main__":
    main()
