"""Time of a build that the model cache has against one without it.

    python bench/cache.py [--rounds 9] [NAME ...]

Each build is a process of its own, which has imported everything before. The cache, a new folder in
the bench cache, is filled before the first round; the files are in the page cache. The control is
the build without it once more. BERT-base is the bench's own ONNX model; NAMEs are networks of
bench/single.py. `dense` has 16 weights of 64 MiB.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from memory import built_seconds
from models import bert_folder, cache_folder, split_folder
from networks import written
from report import print_machine, print_table, ratios, spread
from rounds import interleaved

BAR, BAR_LARGE = 0.5, 1.4
_LARGE = "dense, 16 x 64 MiB"


def seconds(path: Path, cache: Path, rounds: int) -> list[list[float]]:
    """The builds without the cache, without it again, and with it, one per round."""
    without, filled = with_cache(None, path), with_cache(cache, path)
    first = filled()
    again = filled()
    print(
        f"{path.name}: the build that fills the cache took {first:.3f} s until the model could "
        "be used, the next "
        f"{again:.3f} s"
    )
    return list(
        interleaved({"without": without, "control": without, "with": filled}, rounds).values()
    )


def with_cache(cache: Path | None, path: Path) -> Callable[[], float]:
    """A build in a process of its own, with the model cache in that folder; it ends once the cache
    is written.
    """

    def build() -> float:
        os.environ.pop("RANKMESH_CACHE", None)
        if cache:
            os.environ["RANKMESH_CACHE"] = str(cache)
        return built_seconds("rankmesh", path)

    return build


def main() -> None:
    parser = argparse.ArgumentParser(description="Building with and without the model cache.")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    if not find_spec("onnxruntime"):
        sys.exit("onnxruntime is not installed: pip install 'rankmesh[cpu]'")
    print_machine("onnxruntime", "onnx", "numpy")
    networks = written(options.names) if options.names else []
    models = {
        "BERT-base (ONNX)": bert_folder() / "bert.onnx",
        _LARGE: split_folder() / "dense_graph.mindir",
        **{f"{network.title} (MindIR)": network.mindir for network in networks},
    }
    with tempfile.TemporaryDirectory(dir=cache_folder(), prefix="model-cache-") as folder:
        report(
            {title: seconds(path, Path(folder), options.rounds) for title, path in models.items()}
        )


def report(results: dict[str, list[list[float]]]) -> None:
    """Print the table and whether the bars hold."""
    rows = [
        (
            title,
            spread(without),
            spread(ratios(control, without)),
            spread(kept),
            spread(ratios(kept, without)),
        )
        for title, (without, control, kept) in results.items()
    ]
    print_table(
        ("model", "without the cache, s", "control / without", "with it, s", "with / without"), rows
    )
    for title, (without, _, kept) in results.items():
        bar = BAR_LARGE if title == _LARGE else BAR
        ratio = sorted(ratios(kept, without))[len(kept) // 2]
        print(f"{title}: ratio {ratio:.2f}, bar {bar}: {'holds' if ratio <= bar else 'MISSED'}")


if __name__ == "__main__":
    main()
