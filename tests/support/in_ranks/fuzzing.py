"""A rank that writes nonsense: random values at random words of what it shares with its
orchestrator.

It does so while the file that TEST_FUZZ names is there, in the first process of a rank, and in
about half of all others. Which half is drawn from the id of the process: ids that are odd would
often be those of all, as each rank takes the same number of ids for its threads. Left alone are
tensors (the memory of requests, of weights and of collectives), in which nothing can tell right
from wrong.
"""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path
from random import Random

PAGE, WORD = 4096, 8
RECORDS = (
    1 + (512 << 10) // PAGE
)  # pages of an arena with one record: behind the last one lie tensors
SHARED = ("rankmesh-ring", "rankmesh-arena", "rankmesh-seats")


def mappings() -> list[tuple[int, int]]:
    """Address and size of what is shared."""
    found = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        name = next((name for name in SHARED if name in line), None)
        if name is not None:
            begin, end = (int(text, 16) for text in line.split()[0].split("-"))
            found.append(
                (
                    begin,
                    min(end - begin, RECORDS * PAGE) if name == "rankmesh-arena" else end - begin,
                )
            )
    return found


def strike(rng: Random, address: int, size: int) -> None:
    """Write to one word, mostly one of the first of a page: there lie words that have a meaning."""
    page = rng.randrange(size // PAGE) if size >= PAGE else 0
    word = rng.choice(
        (rng.randrange(16), rng.randrange(16), rng.randrange(min(size, PAGE) // WORD))
    )
    target = ctypes.c_uint64.from_address(address + page * PAGE + word * WORD)
    other = ctypes.c_uint64.from_address(address + rng.randrange(size // WORD) * WORD).value
    target.value = rng.choice(
        (
            rng.randrange(12),
            rng.getrandbits(64),
            2**64 - 1,
            target.value ^ 1 << rng.randrange(64),
            target.value + rng.choice((-1, 1)),
            other,
        )
    )


def strikes(rng: Random, first: Path) -> bool:
    """Whether this process is one of those; `first` is made by the first of all."""
    try:
        first.touch(exist_ok=False)
    except FileExistsError:
        return rng.random() < 0.5
    return True


def main() -> None:
    rng, wanted = Random(os.getpid()), Path(os.environ["TEST_FUZZ"])
    chosen = strikes(rng, wanted.with_suffix(".first"))
    while chosen:
        time.sleep(rng.random() * 0.02)
        if wanted.exists():
            for address, size in mappings():
                for _ in range(rng.randrange(20)):
                    strike(rng, address, size)


main()
