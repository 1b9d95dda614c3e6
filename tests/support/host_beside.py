"""A host beside this one: a network namespace with a cable to where the test runs (as root)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from hosts import Host, ip, limited

_NETWORKS = 250


class HostBeside(Host):
    """A context manager; `here` is the address of this end of the cable."""

    def __init__(self, folder: Path, name: str = "far", number: int = 76) -> None:
        """`number` is of the network between the two; other hosts of the test have others."""
        network = f"10.{number}.{os.getpid() % _NETWORKS}"
        super().__init__(name, f"{network}.2", folder)
        self.here = f"{network}.1"
        self.end = f"to{self.cable}"
        """The device at this end."""

    def __enter__(self) -> Self:
        ip("netns", "add", self.namespace)
        self.lay_cable()
        ip("address", "add", f"{self.here}/24", "dev", self.end)
        ip("link", "set", self.end, "up")
        ip("-n", self.namespace, "address", "add", f"{self.address}/24", "dev", self.cable)
        ip("-n", self.namespace, "link", "set", "lo", "up")
        self.set_cable("up")
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["ip", "link", "delete", self.end], check=False)
        subprocess.run(["ip", "netns", "delete", self.namespace], check=False)

    @contextmanager
    def slowed(self, rate: str) -> Iterator[None]:
        """See Host.slowed; this end likewise."""
        with super().slowed(rate), limited(["tc"], self.end, rate):
            yield

    def lay_cable(self) -> None:
        """Make the device at each end."""
        ends = ["name", self.end], ["name", self.cable, "netns", self.namespace]
        ip("link", "add", *ends[0], "type", "veth", "peer", *ends[1])
