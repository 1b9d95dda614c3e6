"""Time of building a model from MindIR against onnxruntime's own load of the same network from
ONNX.

    python bench/build.py [--rounds 9] [NAME ...]

Each build is a process of its own, which has imported everything before; the files are in the page
cache. The control is onnxruntime once more. The networks are those of bench/single.py, see there;
without a name ResNet-50, BERT-base and GPT-2 small.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib.util import find_spec
from statistics import median

from memory import built_seconds
from networks import Network, with_twins, written
from report import print_machine, print_table, ratios, spread
from rounds import interleaved

FACTOR, EXTRA = 1.5, 0.150
_USUAL = ["resnet50", "bert", "gpt2"]


def seconds(network: Network, rounds: int) -> list[list[float]]:
    """The builds of onnxruntime, of onnxruntime again and of ours, one per round."""
    found = interleaved(
        {
            "onnxruntime": lambda: built_seconds("onnxruntime", network.twin),
            "control": lambda: built_seconds("onnxruntime", network.twin),
            "rankmesh": lambda: built_seconds("rankmesh", network.mindir),
        },
        rounds,
    )
    return list(found.values())


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Building from MindIR against onnxruntime's load from ONNX."
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    if not find_spec("onnxruntime"):
        sys.exit("onnxruntime is not installed: pip install 'rankmesh[cpu]'")
    print_machine("onnxruntime", "onnx", "numpy", "protobuf")
    os.environ.pop("RANKMESH_CACHE", None)  # builds from the model cache are bench/cache.py's
    networks = with_twins(written(options.names or _USUAL))
    for network in networks:  # into the page cache
        for path in (network.mindir, network.twin):
            path.read_bytes()
    report({network: seconds(network, options.rounds) for network in networks})


def report(results: dict[Network, list[list[float]]]) -> None:
    """Print the table and whether the bar holds: so many times onnxruntime's median, and a fixed
    addition.
    """
    rows = [
        (
            network.title,
            spread(ours),
            spread(twin),
            spread(ratios(again, twin)),
            spread(ratios(ours, twin)),
        )
        for network, (twin, again, ours) in results.items()
    ]
    print_table(
        (
            "network",
            "rankmesh, s",
            "onnxruntime, s",
            "control / onnxruntime",
            "rankmesh / onnxruntime",
        ),
        rows,
    )
    for network, (twin, _, ours) in results.items():
        bar = FACTOR * median(twin) + EXTRA
        verdict = "holds" if median(ours) <= bar else "MISSED"
        print(
            f"{network.title}: {median(ours):.3f} s, bar {FACTOR} x {median(twin):.3f} s + "
            f"{EXTRA} s = {bar:.3f} s: "
            f"{verdict}"
        )


if __name__ == "__main__":
    main()
