"""Interleavings of the lock-free code, deeper than the suite explores them:

    python tests/fuzz/explore.py [--orders 3] [--ranks 2] [--preemptions 3] [NAME ...]

It prints what was explored in each case, and ends with 1 if there was an order that ends wrongly.
`--preemptions -1` sets no bound. More states need more memory: ten million take 4 GiB.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / ".types"), str(ROOT / "tests" / "support")]
from explorer.collectives import Collectives  # noqa: E402
from explorer.exploration import Explored, Interleaving  # noqa: E402
from explorer.serving import Serving  # noqa: E402


def cases(orders: int, ranks: int, bound: int | None) -> dict[str, Callable[[], Explored]]:
    """What is explored, by name."""
    ring = Serving(ranks, orders, preemptions=bound)
    alone = Serving(1, orders, depth=3, preemptions=bound)
    job = Collectives(ranks, orders, preemptions=bound)
    late = Collectives(ranks, orders, deadline=60.0, preemptions=bound)
    return {
        "exchange": ring.exchange,
        "exchange-death": lambda: ring.exchange(mortal=True),
        "recall": alone.recall,
        "room": alone.room,
        "hold": ring.hold,
        "notify": ring.notify,
        "notify-beside": lambda: ring.notify(beside=True),
        "meet": job.meet,
        "meet-death": lambda: job.meet(mortal=True),
        "meet-deadline": lambda: late.meet(mortal=True),
        "send": job.send,
        "send-death": lambda: job.send(mortal=True),
    }


def main() -> int:
    """Explore, and print each outcome."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    for name, value in {"orders": 3, "ranks": 2, "preemptions": 3}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    given = parser.parse_args()
    bound = None if given.preemptions < 0 else given.preemptions
    wrong = 0
    for name, case in cases(given.orders, given.ranks, bound).items():
        if given.names and name not in given.names:
            continue
        begun = time.monotonic()
        try:
            outcome = str(case())
        except Interleaving as error:
            outcome, wrong = str(error), 1
        print(f"{name}: {outcome}, {time.monotonic() - begun:.0f} s", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
