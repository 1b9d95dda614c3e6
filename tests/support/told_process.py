"""A process that does what a test tells it through a pipe, one command after the other."""

from __future__ import annotations

from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess, SpawnProcess
from typing import Any

PATIENCE = 90.0
"""Seconds that a process may take for one command."""


class ToldProcess:
    """The test's end; who makes one sets `pipe` and starts `process`, which answers every
    command."""

    pipe: Connection
    process: ForkProcess | SpawnProcess

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self.process.pid is not None
        return self.process.pid

    def __call__(self, *command: Any) -> Any:
        """Tell it, and wait for its answer."""
        self.tell(*command)
        return self.answer()

    def tell(self, *command: Any) -> None:
        """Tell it and go on."""
        self.pipe.send(command)

    def answer(self) -> Any:
        """Wait for what it says."""
        assert self.pipe.poll(PATIENCE)
        return self.pipe.recv()
