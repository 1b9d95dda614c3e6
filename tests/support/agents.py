"""Agents that a test starts as a user does, and the key file of them and an orchestrator."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

import psutil
from processes import COMMAND, PATIENCE

from rankmesh.comm.transport.curve import make_keys
from rankmesh.comm.transport.key_file import write_keys


def free_port() -> int:
    """A port of this host that was free just now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class Agents:
    """Agents of one orchestrator, each a process; a context manager that ends them."""

    def __init__(self, folder: Path, address: str = "127.0.0.1") -> None:
        self.key_file = folder / "agents.key"
        write_keys(str(self.key_file), make_keys())
        self.listen = f"{address}:{free_port()}"
        self.started: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def settings(self) -> dict[str, object]:
        """The settings of an orchestrator that these agents join."""
        return {
            "launcher": "agents",
            "listen": self.listen,
            "key_file": str(self.key_file),
            "agents": len(self.started),
            "host_timeout": 2.0,
        }

    def command(self, ranks: int) -> list[str]:
        """The command of an agent that takes so many ranks."""
        joins = ["agent", "--join", self.listen, "--key-file", str(self.key_file)]
        return [*COMMAND, *joins, "--ranks", str(ranks)]

    def start(self, name: str, ranks: int, *more: object, before: Sequence[str] = ()) -> None:
        """Start an agent that takes so many ranks; its command line begins with `before`."""
        command = [*before, *self.command(ranks), "--name", name, *map(str, more)]
        self.started[name] = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=dict(os.environ)
        )

    def ranks(self, name: str) -> list[psutil.Process]:
        """The processes of an agent's ranks."""
        children = psutil.Process(self.started[name].pid).children()
        return [one for one in children if any("rank_loop" in word for word in one.cmdline())]

    def __enter__(self) -> Agents:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.started.values():
            if process.poll() is None:
                process.terminate()
        for process in self.started.values():
            process.communicate(timeout=PATIENCE)
