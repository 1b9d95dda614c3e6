"""Host: tells its names and addresses, and the cores that this process may use."""

from __future__ import annotations

import os
import socket


def names() -> list[str]:
    """The host's names and addresses, as a rank table may call it."""
    import psutil

    name = socket.gethostname()
    found = [name, socket.getfqdn(name) if "." in name else name]
    for addresses in psutil.net_if_addrs().values():
        found += [
            a.address.partition("%")[0]
            for a in addresses
            if a.family in (socket.AF_INET, socket.AF_INET6)
        ]
    return list(dict.fromkeys(found))


def cores() -> list[int]:
    """The cores that this process may use, ascending."""
    return sorted(os.sched_getaffinity(0))


def physical_cores() -> int:
    """The number of physical cores among these; two hardware threads of a core count once."""
    return len({_siblings(core) for core in cores()})


def _siblings(core: int) -> str:
    try:
        with open(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list") as file:
            return file.read()
    except OSError:
        return str(core)
