"""What this host is: its names and addresses, the cores this process may use, its GPUs."""

from __future__ import annotations

import glob
import os
import socket
from itertools import takewhile


def names() -> list[str]:
    """The host's names and addresses, as a rank table may call it."""
    import psutil

    name = socket.gethostname()
    found = [name, socket.getfqdn(name) if "." in name else name]
    for addresses in psutil.net_if_addrs().values():
        found += [a.address.partition("%")[0] for a in addresses if a.family in (socket.AF_INET, socket.AF_INET6)]
    return list(dict.fromkeys(found))


def cores() -> list[int]:
    """The cores that this process may use, ascending."""
    return sorted(os.sched_getaffinity(0))


def gpu_count() -> int:
    """How many NVIDIA GPUs this process may use."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    present = len(glob.glob("/dev/nvidia[0-9]*"))
    if visible is None:
        return present
    listed = takewhile(lambda item: item.strip() not in ("", "-1"), visible.split(","))  # CUDA stops there too
    return min(present, len(list(listed)))
