"""A host far away: as one beside this, but its cable may be slow and lose packets."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import hosts
from host_beside import HostBeside
from hosts import ip
from packet_relay import tun

_RELAY = Path(__file__).with_name("packet_relay.py")
_NETWORK = 79


@functools.cache
def why_not() -> str:
    """Why there can be no such host here; empty if there can."""
    if hosts.why_not():
        return hosts.why_not()
    try:
        os.close(tun(""))
    except OSError as error:
        return f"TUN devices are not allowed here: {error}"
    return ""


class HostAway(HostBeside):
    """A context manager. Packets are carried by a process of its own, so all connections alike."""

    def __init__(self, folder: Path, name: str = "away") -> None:
        super().__init__(folder, name, _NETWORK)

    def lay_cable(self) -> None:
        """See HostBeside."""
        command = [sys.executable, "-P", str(_RELAY), self.end, self.cable]
        self._relay = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._read("ready")
        ip("link", "set", self.cable, "netns", self.namespace)

    def __exit__(self, *_: object) -> None:
        self._relay.communicate()
        subprocess.run(["ip", "netns", "delete", self.namespace], check=False)

    def carry(self, delay: float = 0.0, lost: float = 0.0) -> None:
        """From now on a packet is under way for `delay` seconds, and a share is lost."""
        assert self._relay.stdin is not None
        print(delay, lost, file=self._relay.stdin, flush=True)
        self._read("changed")

    @contextmanager
    def carrying(self, delay: float = 0.0, lost: float = 0.0) -> Iterator[None]:
        """As `carry`, inside; then without delay and loss."""
        self.carry(delay, lost)
        try:
            yield
        finally:
            self.carry()

    def _read(self, expected: str) -> None:
        assert self._relay.stdout is not None
        line = self._relay.stdout.readline()
        assert line == f"{expected}\n", f"the relay says {line!r}"
