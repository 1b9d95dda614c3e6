"""Resources of this host: its NVIDIA GPUs, and the memory that this process may have."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import PurePosixPath
from typing import NamedTuple

from .visible_gpus import visible_gpus


def gpu_count() -> int:
    """The number of NVIDIA GPUs that this process may use."""
    return len(visible_gpus())


_GROUPS = "/sys/fs/cgroup"


class MemoryLimit(NamedTuple):
    """`size` in bytes, and the file of the control group that limits it.

    The file of the memory of the host is "".
    """

    size: int
    file: str = ""

    @property
    def note(self) -> str:
        """The limit for messages; "" for the memory of the host."""
        return self.file and f"the limit of its control group is {self.size >> 20} MiB, {self.file}"


def memory_limit() -> MemoryLimit:
    """The smallest limit of all groups that the process is in, of cgroup v2 or v1."""
    found = [MemoryLimit(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))]
    for file in control_group_files():
        with suppress(OSError, ValueError):  # no such group seen from here; "max"
            with open(file) as opened:
                found.append(MemoryLimit(int(opened.read()), file))
    return min(found)


def control_group_files() -> Iterator[str]:
    """The files of the groups that the process is in, and of those around them."""
    with suppress(OSError), open("/proc/self/cgroup") as lines:
        for line in lines:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if not controllers:
                base, name = _GROUPS, "memory.max"
            elif "memory" in controllers.split(","):
                base, name = f"{_GROUPS}/memory", "memory.limit_in_bytes"
            else:
                continue
            group = PurePosixPath(path)
            yield from (
                f"{base}{str(folder).rstrip('/')}/{name}" for folder in (group, *group.parents)
            )
