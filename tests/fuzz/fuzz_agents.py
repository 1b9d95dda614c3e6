"""Fuzzes an orchestrator with agents that lie, in virtual time; see CONTRIBUTING.md.

python tests/fuzz/fuzz_agents.py [--lies 100000] [--seed 0]
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / ".types"), str(ROOT / "tests" / "support")]
from lying_agents import lied_to  # noqa: E402


def main() -> int:
    """Print the outcomes of requests; 1 where one had none, two, or a fault of ours."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--lies", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    logging.disable(logging.ERROR)
    lies, seed, began = 0, options.seed, time.monotonic()
    errors: Counter[str] = Counter()
    answered = 0
    while lies < options.lies:
        outcomes, told = lied_to(seed, 300)
        lies, seed, answered = lies + told, seed + 1, answered + outcomes.answered
        errors += outcomes.errors
        if not outcomes.done or outcomes.twice:
            print(f"seed {seed - 1}: {outcomes}")
            return 1
    print(f"{lies} lies in {time.monotonic() - began:.0f} s: {answered} answers, {dict(errors)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
