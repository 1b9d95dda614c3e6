"""Two hosts on one machine: network namespaces with a cable between them, made and removed by the
tests (as root).
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from processes import COMMAND, Running, segments

NETWORK = "10.77.0"


@functools.cache
def why_not() -> str:
    """Why there can be no namespaces here; empty if there can."""
    missing = [tool for tool in ("ip", "tc", "unshare", "hostname") if shutil.which(tool) is None]
    if missing:
        return f"{' and '.join(missing)} not installed"
    if os.getuid() != 0:
        return "network namespaces need root"
    done = subprocess.run(
        ["unshare", "--net", "--uts", "ip", "link", "add", "one", "type", "veth", "peer", "two"],
        capture_output=True,
        text=True,
    )
    return (
        f"network namespaces are not allowed here: {done.stderr.strip()}" if done.returncode else ""
    )


class Host:
    """One of the hosts, with a name, an address and a folder for sockets of its own."""

    def __init__(self, name: str, address: str, folder: Path) -> None:
        self.name, self.address = name, address
        self.namespace = f"rankmesh-{os.getpid()}-{name}"
        self.cable = f"{name}{os.getpid()}"
        self.folder = folder / name
        self.folder.mkdir(mode=0o700)

    def command(self, arguments: Sequence[object]) -> list[str]:
        """A command as this host runs it."""
        return [
            "ip",
            "netns",
            "exec",
            self.namespace,
            "unshare",
            "--uts",
            "sh",
            "-c",
            f'hostname {self.name} && exec "$@"',
            "sh",
            *map(str, arguments),
        ]

    def start(self, *arguments: object, **environment: str) -> subprocess.Popen[str]:
        """Start a command."""
        return subprocess.Popen(
            self.command(arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "XDG_RUNTIME_DIR": str(self.folder), **environment},
        )

    def set_cable(self, state: str) -> None:
        """Plug it in ("up") or out ("down")."""
        ip("-n", self.namespace, "link", "set", self.cable, state)

    @contextmanager
    def slowed(self, rate: str) -> Iterator[None]:
        """Have the host send so much a second; what waits for longer than 0.1 s is lost."""
        with limited(["tc", "-n", self.namespace], self.cable, rate):
            yield


class TwoHosts:
    """A context manager; `one` and `two` are the hosts."""

    def __init__(self, folder: Path) -> None:
        self.one, self.two = (
            Host(name, f"{NETWORK}.{number}", folder) for name, number in (("one", 1), ("two", 2))
        )
        self.both = (self.one, self.two)

    def __enter__(self) -> TwoHosts:
        for host in self.both:
            ip("netns", "add", host.namespace)
        ip(
            "link",
            "add",
            self.one.cable,
            "netns",
            self.one.namespace,
            "type",
            "veth",
            "peer",
            "name",
            self.two.cable,
            "netns",
            self.two.namespace,
        )
        for host in self.both:
            ip("-n", host.namespace, "address", "add", f"{host.address}/24", "dev", host.cable)
            ip("-n", host.namespace, "link", "set", "lo", "up")
            host.set_cable("up")
        return self

    def __exit__(self, *_: object) -> None:
        for host in self.both:
            subprocess.run(["ip", "netns", "delete", host.namespace], check=False)

    def rank_table(self, path: Path, each: int) -> Path:
        """A table that puts `each` ranks on each host."""
        servers = [
            {
                "server_id": host.address,
                "device": [
                    {"device_id": str(i), "rank_id": str(number * each + i)} for i in range(each)
                ],
            }
            for number, host in enumerate(self.both)
        ]
        path.write_text(
            json.dumps(
                {
                    "version": "1.0",
                    "server_count": "2",
                    "status": "completed",
                    "server_list": servers,
                }
            )
        )
        return path


class RunningOn(Running):
    """A `rankmesh run` on one of the hosts."""

    def __init__(self, host: Host, *arguments: object, **environment: str) -> None:
        self.before = segments()
        self.process = host.start(*COMMAND, "run", *arguments, **environment)
        self._seen = {}


@contextmanager
def limited(tc: Sequence[str], device: str, rate: str) -> Iterator[None]:
    """Have a device send so much a second; what waits for longer than 0.1 s is lost."""
    at, where = [*tc, "qdisc"], ["dev", device, "root"]
    bucket = ["tbf", "rate", rate, "burst", "32kb", "latency", "100ms"]
    subprocess.run([*at, "add", *where, *bucket], check=True)
    try:
        yield
    finally:
        subprocess.run([*at, "delete", *where], check=True)


def ip(*arguments: str) -> None:
    """Run the `ip` command."""
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
