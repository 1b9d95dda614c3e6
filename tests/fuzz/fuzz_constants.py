"""Random models in which much is computed from weights alone, sliced, run by real ranks, compared:
python tests/fuzz/fuzz_constants.py [--seconds 150] [--seed 1000].

It prints the seed of each model that is wrong or fails, and ends with 1 if there was one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from constant_graphs import prove_random

from rankmesh import ModelError
from rankmesh.comm.processes.shard_trial import ShardTrial


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--seed", type=int, default=1000)
    given = parser.parse_args()
    end, seed, right, wrong = time.monotonic() + given.seconds, given.seed, 0, 0
    while time.monotonic() < end:
        with ShardTrial() as trial, tempfile.TemporaryDirectory() as folder:
            while time.monotonic() < end:
                seed += 1
                try:
                    prove_random(seed, Path(folder), trial)
                    right += 1
                except ModelError as failure:
                    wrong += 1
                    print(f"seed {seed}: {failure}", flush=True)
                    break  # its process may have ended
    print(f"{right} right, {wrong} wrong or failed; the last seed was {seed}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
