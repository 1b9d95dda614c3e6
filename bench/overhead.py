"""What predict adds to onnxruntime's own session.run, for a small model of 1 and of 8 inputs.

    python bench/overhead.py [--rounds 9]

The model adds its inputs of 16 numbers. Every round measures each contender in a process of its
own; the control is session.run once more. Both the case where each call has the same arrays, and
that where it has new ones.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from statistics import median

from onnx import TensorProto, helper, save
from report import print_machine, print_table, spread
from rounds import interleaved

BAR = 15.0
_CALLING = Path(__file__).with_name("calling.py")
_NAMES = {
    "session.run": "run",
    "session.run again (control)": "run",
    "Program.predict": "program",
    "Model.predict": "model",
}


def small_model(path: Path, count: int) -> str:
    """An ONNX file that adds `count` inputs float32 [4, 4]; a Relu follows, so that one input is
    some work too.
    """
    kinds = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 4])
        for name in [*(f"x{i}" for i in range(count)), "y"]
    ]
    names = [kind.name for kind in kinds[:-1]]
    nodes = [helper.make_node("Sum", names, ["sum"]), helper.make_node("Relu", ["sum"], ["y"])]
    graph = helper.make_graph(nodes, "small", kinds[:-1], kinds[-1:])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return str(path)


def called(who: str, path: str, arrays: str) -> float:
    """The microseconds of one call in a new process."""
    command = [sys.executable, str(_CALLING), who, path, arrays]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description="What predict adds to session.run.")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    if not find_spec("onnxruntime"):
        sys.exit("onnxruntime is not installed: pip install 'rankmesh[cpu]'")
    print_machine("onnxruntime", "numpy")
    rows, worst = [], 0.0
    with tempfile.TemporaryDirectory() as scratch:
        for count, arrays in product((1, 8), ("same", "new")):
            results = measured(
                small_model(Path(scratch) / f"{count}.onnx", count), arrays, options.rounds
            )
            base = results["session.run"]
            for name, found in results.items():
                more = [one - other for one, other in zip(found, base, strict=True)]
                worst = (
                    max(worst, median(more)) if arrays == "same" and "predict" in name else worst
                )
                rows.append((f"{count}, {arrays}", name, spread(found, 1), spread(more, 1)))
    print_table(("inputs, arrays", "call", "µs", "more than session.run, µs"), rows)
    print(
        f"{options.rounds} rounds; most with the same arrays {worst:.1f} µs, bar {BAR} µs: "
        f"{'holds' if worst <= BAR else 'MISSED'}"
    )


def measured(path: str, arrays: str, rounds: int) -> dict[str, list[float]]:
    """Every contender's microseconds, one figure per round."""
    return interleaved(
        {name: partial(called, who, path, arrays) for name, who in _NAMES.items()}, rounds
    )


if __name__ == "__main__":
    main()
