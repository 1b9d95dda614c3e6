"""Fuzzes every decoder of what other processes say; see CONTRIBUTING.md.

python tests/fuzz/fuzz_packets.py [--packets 1000000] [--seed 0] [DECODER ...]
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from random import Random

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / ".types"), str(ROOT / "tests" / "support")]
from packets import DECODERS, packet, survives  # noqa: E402


def main() -> int:
    """Print a line for each decoder, and each packet that one did not survive; 1 where there was
    any.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--packets", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("decoders", nargs="*", default=list(DECODERS))
    options = parser.parse_args()
    faults = 0
    for name in options.decoders:
        decode, messages = DECODERS[name]
        random, began = Random(f"{options.seed} {name}"), time.monotonic()
        for _ in range(options.packets):
            data = packet(random, messages)
            try:
                survives(decode, data)
            except Exception as error:
                faults += 1
                print(
                    f"{name}: {type(error).__name__} {error!s:.200} from {data[:200]!r}", flush=True
                )
        print(f"{name}: {options.packets} packets in {time.monotonic() - began:.1f} s", flush=True)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
