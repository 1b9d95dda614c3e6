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
    """Agents of one orchestrator, each a process; a context manager that ends them.

    What agent NAME says is in NAME.log in the folder.
    """

    def __init__(self, folder: Path, address: str = "127.0.0.1") -> None:
        self.key_file = folder / "agents.key"
        write_keys(str(self.key_file), make_keys())
        self.listen = f"{address}:{free_port()}"
        self.started: dict[str, subprocess.Popen[bytes]] = {}
        self._folder = folder
        self._commands: dict[str, list[str]] = {}

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

    def command(self, ranks: int, at: str = "") -> list[str]:
        """The command of an agent that takes so many ranks, and joins `at` an address of this host:
        by default where the orchestrator listens.
        """
        join = f"{at}:{self.listen.rpartition(':')[2]}" if at else self.listen
        joins = ["agent", "--join", join, "--key-file", str(self.key_file)]
        return [*COMMAND, *joins, "--ranks", str(ranks)]

    def start(
        self, name: str, ranks: int, *more: object, before: Sequence[str] = (), at: str = ""
    ) -> None:
        """Start an agent that takes so many ranks; its command line begins with `before`."""
        command = [*before, *self.command(ranks, at), "--name", name, *map(str, more)]
        self._commands[name] = command
        self.start_again(name)

    def start_again(self, name: str) -> None:
        """Start an agent that has ended, as it was started before."""
        with (self._folder / f"{name}.log").open("ab") as log:  # a pipe would fill in a long test
            self.started[name] = subprocess.Popen(
                self._commands[name], stdin=subprocess.DEVNULL, stderr=log, env=dict(os.environ)
            )

    def kill(self, name: str) -> None:
        """End an agent at once."""
        self.started[name].kill()
        self.started[name].wait(PATIENCE)

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
            process.wait(PATIENCE)
