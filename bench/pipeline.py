"""BERT-base in two pipeline stages, served one request at a time and several at once.

    python bench/pipeline.py [--rounds 5] [--requests 40]

The stages are cut by the planner of slicing. Each is a rank of one thread. Every round starts each
contender afresh, one after the other; one rank of the whole model is the base.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
from models import bert_folder
from report import print_machine, print_table, ratios, spread
from rounds import interleaved

_WARM_UP = 3


def sliced(model: Path, folder: Path, stages: int) -> str:
    """Write the shards of a pipeline; returns their pattern."""
    from rankmesh.compiler.model_file.model_format import format_of
    from rankmesh.compiler.right_sizes.shapes import source_graph
    from rankmesh.compiler.slicing.emission.write import write_shard
    from rankmesh.compiler.slicing.placement.slice_plan import SlicePlan
    from rankmesh.compiler.slicing.planning.pipeline import with_stages
    from rankmesh.compiler.source_graph.source_graph import source_model

    loaded = format_of(str(model)).load(str(model), None, "", None)
    graph = source_graph(source_model(loaded), str(model))
    plan = with_stages(graph, SlicePlan(1, {}), stages)
    for rank in range(stages):
        shard = write_shard(graph, plan, rank, folder / "bert", "bench")
        print(f"stage {rank}: {shard.nbytes >> 20} MiB, {dict(shard.collectives)}")
    return str(folder / "bert_rank{rank}.onnx")


def served(pattern: str, ranks: int, clients: int, requests: int, feed: np.ndarray) -> float:
    """Requests per second of an orchestrator that `clients` threads send `requests` in all."""
    from rankmesh import Orchestrator

    with Orchestrator(pattern, ranks=ranks, threads=1, device="cpu") as orchestrator:
        for _ in range(_WARM_UP):
            orchestrator.predict(feed)
        barrier = threading.Barrier(clients + 1)

        def client() -> None:
            barrier.wait()
            for _ in range(requests // clients):
                orchestrator.predict(feed)

        threads = [threading.Thread(target=client) for _ in range(clients)]
        for thread in threads:
            thread.start()
        barrier.wait()
        start = time.perf_counter()
        for thread in threads:
            thread.join()
        return requests // clients * clients / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description="BERT-base in two stages of a pipeline.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=40, help="per contender and round")
    options = parser.parse_args()
    print_machine("onnxruntime", "numpy")
    folder = bert_folder()
    feed = np.load(folder / "bert.npz")["in_0"]
    with tempfile.TemporaryDirectory() as scratch:
        two = sliced(folder / "bert.onnx", Path(scratch), 2)
        measure = partial(served, requests=options.requests, feed=feed)
        contenders: dict[str, Callable[[], float]] = {
            "one rank, one client": partial(measure, str(folder / "bert.onnx"), 1, 1),
            "two stages, one client": partial(measure, two, 2, 1),
            "two stages, two clients": partial(measure, two, 2, 2),
            "two stages, four clients": partial(measure, two, 2, 4),
        }
        results = interleaved(contenders, options.rounds)
    base = next(iter(results.values()))
    rows = [
        (name, spread(found, 1), spread(ratios(found, base))) for name, found in results.items()
    ]
    print_table(("contender", "requests/s", "ratio, round by round"), rows)
    print(f"median of the last: {median(ratios(results[rows[-1][0]], base)):.2f}")


if __name__ == "__main__":
    main()
