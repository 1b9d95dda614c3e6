"""A host beside this one: a network namespace with a cable to where the test runs (as root)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Self

from hosts import Host, ip

_NETWORKS = 250


class HostBeside(Host):
    """A context manager; `here` is the address of this end of the cable."""

    def __init__(self, folder: Path) -> None:
        network = f"10.76.{os.getpid() % _NETWORKS}"
        super().__init__("far", f"{network}.2", folder)
        self.here = f"{network}.1"
        self._end = f"near{os.getpid()}"

    def __enter__(self) -> Self:
        ip("netns", "add", self.namespace)
        ends = ["name", self._end], ["name", self.cable, "netns", self.namespace]
        ip("link", "add", *ends[0], "type", "veth", "peer", *ends[1])
        ip("address", "add", f"{self.here}/24", "dev", self._end)
        ip("link", "set", self._end, "up")
        ip("-n", self.namespace, "address", "add", f"{self.address}/24", "dev", self.cable)
        ip("-n", self.namespace, "link", "set", "lo", "up")
        self.set_cable("up")
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["ip", "link", "delete", self._end], check=False)
        subprocess.run(["ip", "netns", "delete", self.namespace], check=False)
