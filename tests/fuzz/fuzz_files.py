"""Fuzzes the readers of plan.json, weights.json and offers of models; see CONTRIBUTING.md.

python tests/fuzz/fuzz_files.py [--files 100000] [--seed 0] [READER ...]
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / ".types"), str(ROOT / "tests" / "support")]
from file_fuzz import READERS, taken  # noqa: E402

_MEMORY = 4 << 30
"""Bytes of addresses: a file that asks for more fails here, and not the machine."""


def main() -> int:
    """Print a line for each reader, with the first file that one did not survive; 1 for any."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--seed", default="0")
    parser.add_argument("readers", nargs="*", default=list(READERS))
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # nosec B108  # scratch
    faults = 0
    for name in options.readers:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(dir=memory) as folder:
            try:
                count = taken(name, options.seed, options.files, Path(folder))
            except AssertionError as error:
                faults += 1
                print(f"FAULT {error}: {error.__cause__!r}", flush=True)
                continue
        seconds = time.monotonic() - began
        print(f"{name}: {count} of {options.files} taken, {seconds:.1f} s", flush=True)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
