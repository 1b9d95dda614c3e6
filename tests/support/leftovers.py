"""What this process holds that could leak, as the kernel shows it."""

from __future__ import annotations

import gc
import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from processes import segments, wait_until


def holdings(collected: bool = True) -> dict[str, Counter[str]]:
    """Descriptors by what they are, threads, children, maps of shared memory, and what lies in
    /dev/shm.
    """
    if collected:
        gc.collect()
    maps = Counter(
        line.split()[-1]
        for line in Path("/proc/self/maps").read_text().splitlines()
        if "memfd:rankmesh" in line or "/dev/shm/rankmesh" in line
    )
    return {
        "descriptors": descriptors(),
        "threads": Counter(
            thread.name for thread in threading.enumerate() if thread.name.startswith("rankmesh")
        ),
        "children": Counter(
            " ".join(_command(child)) for child in psutil.Process().children(recursive=True)
        ),
        "maps": maps,
        "segments": Counter(segments()),
    }


def descriptors(process: int | str = "self") -> Counter[str]:
    """Open descriptors of a process by what they are."""
    found = Counter(_target(entry) for entry in os.scandir(f"/proc/{process}/fd"))
    return Counter({target: count for target, count in found.items() if target})


@contextmanager
def nothing_left() -> Iterator[None]:
    """What the block opens, starts and maps is gone soon after it."""
    before = holdings()

    def more() -> dict[str, Counter[str]]:
        return {
            kind: found - before[kind] for kind, found in holdings().items() if found - before[kind]
        }

    yield
    wait_until(lambda: not more(), lambda: f"nothing to be left, but there is {more()}")


def _target(entry: os.DirEntry[str]) -> str:
    """The kind of file; sockets and pipes have numbers that are new each time."""
    try:
        return os.readlink(entry.path).partition(":[")[0]
    except OSError:  # the descriptor with which we look
        return ""


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
