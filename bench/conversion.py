"""Memory and time that it takes to convert an ONNX model with 1 GiB of weights to MindIR, beside a
copy of its files.

    python bench/conversion.py [--rounds 9] [--folder FOLDER]

The weights lie in the file, or outside as external data. Every contender is a process of its own.
Its memory is the largest RssAnon that /proc shows, which is private; pages of mapped files do not
count. Pages of all files are in the page cache before a round, and byte code is cached, as it is
after a user's first conversion.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import onnx
from onnx import TensorProto, helper
from rounds import interleaved

LAYERS, WIDTH = 64, 2048
WEIGHT_BYTES = LAYERS * WIDTH * WIDTH * 4
COPY = """
import shutil, sys
for name in sys.argv[2:]:
    shutil.copyfile(name, sys.argv[1] + "/" + name.rpartition("/")[2])
"""
CONVERT = """
import sys
from rankmesh.launch.cli import main
sys.argv[1:] = ["convert", f"--modelFile={sys.argv[2]}", f"--outputFile={sys.argv[1]}/model"]
main()
"""


@dataclass(frozen=True)
class Cost:
    """The wall time of a process, and its largest private memory in bytes."""

    seconds: float
    private: int


def write_model(path: Path, external: bool) -> None:
    """A chain of products, each with a weight of 16 MiB."""
    random = np.random.default_rng(0)
    nodes, weights = [], []
    for layer in range(LAYERS):
        data = random.standard_normal((WIDTH, WIDTH), np.float32)
        weights.append(onnx.numpy_helper.from_array(data, f"weight{layer}"))
        names = [f"h{layer}", f"weight{layer}"]
        nodes.append(helper.make_node("MatMul", names, [f"h{layer + 1}"], f"layer{layer}"))
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, WIDTH])
        for name in ("h0", f"h{LAYERS}")
    ]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, path, save_as_external_data=external, location=f"{path.stem}.data")


def cost(program: str, folder: Path, files: Sequence[Path]) -> Cost:
    """What a program costs that writes into a new folder, which is removed."""
    result = Path(tempfile.mkdtemp(dir=folder))
    began = time.perf_counter()
    command = [sys.executable, "-P", "-c", program, str(result), *map(str, files)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    private = 0
    while process.poll() is None:
        private = max(private, _anonymous(process.pid))
        time.sleep(0.005)
    seconds = time.perf_counter() - began
    shutil.rmtree(result)
    if process.returncode:
        raise SystemExit(f"a contender ended with {process.returncode}")
    return Cost(seconds, private)


def _anonymous(pid: int) -> int:
    """The private memory of a process now; 0 when it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon:"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = f"{name}/byte-code"
        for external in (True, False):
            folder = Path(name) / ("outside" if external else "inside")
            folder.mkdir()
            write_model(folder / "model.onnx", external)
            print(f"weights {folder.name} the file: {compared(folder, options.rounds)}")
            shutil.rmtree(folder)


def compared(folder: Path, rounds: int) -> str:
    """Conversion and copy, as a line of text."""
    files = sorted(folder.iterdir())
    model = [folder / "model.onnx"]
    results = interleaved(
        {
            "copy": lambda: cost(COPY, folder, files),
            "copy again": lambda: cost(COPY, folder, files),
            "convert": lambda: cost(CONVERT, folder, model),
        },
        rounds,
    )
    seconds = {key: median(one.seconds for one in some) for key, some in results.items()}
    private = median(one.private for one in results["convert"])
    return (
        f"{seconds['convert']:.2f} s, {seconds['convert'] / seconds['copy']:.2f} of a copy "
        f"({seconds['copy']:.2f} s; again {seconds['copy again'] / seconds['copy']:.2f}); private "
        f"memory {private / 1e6:.0f} MB, {private / WEIGHT_BYTES:.2f} of the weights"
    )


if __name__ == "__main__":
    main()
