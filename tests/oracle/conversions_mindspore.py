"""Runs MindIR files by MindSpore on the CPU, and says how far each is from the results expected.

Started by conversions.py in MindSpore's own environment, and needs nothing of Rankmesh:

    python tests/oracle/conversions_mindspore.py FOLDER NAME ...

For each NAME, FOLDER has NAME.mindir, and NAME.npz with in_0, ..., out_0, ... One line of JSON per
name tells its largest difference, in parts of the largest number of that output.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("GLOG_v", "4")

import numpy as np


def main() -> None:
    import mindspore as ms

    ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
    folder = Path(sys.argv[1])
    for name in sys.argv[2:]:
        print(json.dumps({"name": name, **outcome(ms, folder / name)}), flush=True)


def outcome(ms: Any, stem: Path) -> dict[str, Any]:
    """The largest relative difference of a file, or what MindSpore says instead."""
    with np.load(f"{stem}.npz") as file:
        inputs = [file[f"in_{at}"] for at in range(sum(key.startswith("in_") for key in file))]
        expected = [file[f"out_{at}"] for at in range(len(file.files) - len(inputs))]
    try:
        network = ms.nn.GraphCell(ms.load(str(_file(stem))))
        results = network(*[ms.Tensor(one) for one in inputs])
        found = [one.asnumpy() for one in _flat(results)]
    except Exception as error:  # whatever MindSpore raises is the reason to record
        return {"error": " ".join(str(error).split())[:400]}
    return _compared(found, expected)


def _file(stem: Path) -> Path:
    whole = Path(f"{stem}.mindir")
    return whole if whole.exists() else Path(f"{stem}_graph.mindir")


def _flat(results: Any) -> list[Any]:
    if isinstance(results, tuple | list):
        return [one for result in results for one in _flat(result)]
    return [results]


def _compared(found: list[np.ndarray], expected: list[np.ndarray]) -> dict[str, Any]:
    if [one.shape for one in found] != [one.shape for one in expected]:
        return {
            "error": f"shapes {[one.shape for one in found]}, expected "
            f"{[one.shape for one in expected]}"
        }
    if [one.dtype for one in found] != [one.dtype for one in expected]:
        return {
            "error": f"dtypes {[str(one.dtype) for one in found]}, expected "
            f"{[str(one.dtype) for one in expected]}"
        }
    return {"gap": max(map(_gap, found, expected), default=0.0)}


def _gap(got: np.ndarray, wanted: np.ndarray) -> float:
    if not wanted.size:
        return 0.0
    if wanted.dtype.kind in "bSU":
        return float((got != wanted).any())
    got, wanted = got.astype(np.float64), wanted.astype(np.float64)
    both = np.isfinite(wanted)
    if not np.array_equal(got[~both], wanted[~both], equal_nan=True):
        return float("inf")
    scale = max(float(np.abs(wanted[both]).max(initial=0)), 1e-6)
    return float(np.abs(got[both] - wanted[both]).max(initial=0)) / scale


if __name__ == "__main__":
    main()
