"""Plans of random networks under many limits of memory: python tests/fuzz/fuzz_plans.py
[--seconds 150] [--seed 1000] [--limits 6] [--stages].

No plan may be worse in bytes and in predicted time than one for another limit, and the default has
at most 1.02 times the least matrices, 1.10 times where the ranks do not divide the heads. It prints
the seed of each network that breaks this, and ends with 1 if there was one. With `--stages` the
plans are pipelines, whose default keeps no factor, as stages take equally long.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from plan_limits import Planned, default_factor, plans_under_limits, worse_plans
from random_networks import random_network
from slicing import graph_of

from rankmesh.compiler.slicing.planning.propagate import propagate
from rankmesh.compiler.slicing.search.uneven_heads import has_uneven_heads
from rankmesh.compiler.source_graph.source_graph import SourceGraph

_EVEN, _UNEVEN = 1.02, 1.10
_ROUNDING = 0.001
"""Of a factor: targets are of parts that are not whole bytes."""


def faults(graph: SourceGraph, plans: list[Planned], ranks: int, stages: int) -> Iterator[str]:
    """What plans of one network break."""
    yield from worse_plans(plans, stages)
    uneven = stages == 1 and has_uneven_heads(propagate(graph, ranks), ranks)
    most, factor = _UNEVEN if uneven else _EVEN, default_factor(plans)
    if stages == 1 and factor > most + _ROUNDING:
        yield f"the default has {factor:.4f} times the least"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--limits", type=int, default=6)
    parser.add_argument("--stages", action="store_true")
    given = parser.parse_args()
    end, seed, sound, broken, unproved = time.monotonic() + given.seconds, given.seed, 0, 0, 0
    while time.monotonic() < end:
        seed += 1
        random = Random(seed)
        graph = graph_of(random_network(random))
        stages, ranks = random.choice([(2, 2), (2, 4), (3, 3)]), random.choice([2, 2, 3, 4])
        shape = stages if given.stages else (1, ranks)
        plans = plans_under_limits(graph, shape[1], shape[0], given.limits)
        unproved += sum(not one.proved for one in plans)
        found = list(faults(graph, plans, shape[1], shape[0]))
        sound, broken = sound + (not found), broken + bool(found)
        for fault in found:
            print(f"seed {seed}, {shape[1]} ranks in {shape[0]} stages: {fault}", flush=True)
    print(f"{sound} sound, {broken} broken, {unproved} plans unproved; the last seed was {seed}")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
