"""Starts `rankmesh run` as a user does, and looks at the processes it has."""

from __future__ import annotations

import atexit
import functools
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from fork_server import ForkServer

from rankmesh.comm.job_memory.arena import Arena
from rankmesh.comm.job_memory.progress import Progress, ProgressSnapshot

PATIENCE = 90.0
"""Seconds that anything may take on a machine that others keep busy."""

COMMAND = [sys.executable, "-m", "rankmesh"]


_AT_START = dict(os.environ)

_FORKED = ("RANKMESH_", "XDG_", "CUDA_VISIBLE_DEVICES", "HOME", "PYTEST_CURRENT_TEST", "TMPDIR")
"""How variables begin that commands read only after their imports."""


def rankmesh(
    *arguments: object, timeout: float = PATIENCE, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end: in a process that has made its imports already, unless the
    variables say something to Python or to libraries.
    """
    variables = {**os.environ, **environment}
    command = [*COMMAND, *map(str, arguments)]
    if not _changed(variables):
        return _forked(command, variables, timeout)
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=timeout,
        env=variables,
        stdin=subprocess.DEVNULL,
    )


def _changed(variables: dict[str, str]) -> bool:
    changed = {name for name, _ in variables.items() ^ _AT_START.items()}
    return not all(name.startswith(_FORKED) for name in changed)


@functools.cache
def _fork_server() -> ForkServer:
    server = ForkServer("forked_command", environment=_AT_START)
    atexit.register(server.end)
    return server


def _forked(
    command: list[str], variables: dict[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    order = {"arguments": command[len(COMMAND) :], "environment": variables, "folder": os.getcwd()}
    process = _fork_server().start(order)
    try:
        out, errors = process.communicate(timeout)
        return subprocess.CompletedProcess(command, process.status(), out, errors)
    finally:
        process.end(timeout)


class Running:
    """A `rankmesh run` that is still going; a context manager that ends it with all its ranks."""

    def __init__(self, *arguments: object, **environment: str) -> None:
        self.before = segments()
        self.process = subprocess.Popen(
            [*COMMAND, "run", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
        )
        self._seen: dict[int, psutil.Process] = {}

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            for process in [*self.ranks().values(), psutil.Process(self.process.pid)]:
                process.kill()
        self.process.communicate()

    def ranks(self) -> dict[int, psutil.Process]:
        """The rank processes seen so far that still live, by rank."""
        if self.process.poll() is None:
            for child in psutil.Process(self.process.pid).children():
                label = _argument(child)
                if label.startswith("rank="):
                    self._seen[int(label[5:])] = child
        return {
            rank: p
            for rank, p in self._seen.items()
            if p.is_running() and p.status() != psutil.STATUS_ZOMBIE
        }

    def rank(self, rank: int) -> psutil.Process:
        """The process of one rank, waited for."""
        wait_until(lambda: rank in self.ranks(), f"rank {rank} to be started")
        return self.ranks()[rank]

    def progress(self, rank: int) -> ProgressSnapshot:
        """How far a rank is, read from the supervisor's arena."""
        folder = Path(f"/proc/{self.process.pid}/fd")
        for entry in folder.iterdir():
            if "rankmesh-arena" in os.readlink(entry):
                fd = os.open(entry, os.O_RDWR)
                arena = Arena.attach(fd)
                try:
                    return Progress(arena, rank).read()
                finally:
                    arena.close()
        raise AssertionError("the supervisor has no arena")

    def wait_inside_collective(self, rank: int) -> None:
        """Until a rank has entered a collective and not left it."""
        wait_until(
            lambda: self.rank(rank) is not None and self.progress(rank).waiting,
            f"rank {rank} in a collective",
        )

    def end(self) -> tuple[int, str]:
        """Exit status and standard error; also checks that no rank and no segment is left."""
        _, errors = self.process.communicate(timeout=PATIENCE)
        wait_until(lambda: not self.ranks(), "the ranks to end")
        assert segments() <= self.before
        return self.process.returncode, errors


def segments() -> set[str]:
    """What lies in /dev/shm, but for what is of MPI jobs, Python's multiprocessing and clients of
    servers, which others may be running.
    """
    return {
        name
        for name in os.listdir("/dev/shm")
        if not name.startswith(("sm_segment", "vader", "mpich", "sem.mp-", "client-memory"))
    }


def _argument(process: psutil.Process) -> str:
    try:
        return (process.cmdline() or [""])[-1]
    except psutil.NoSuchProcess:
        return ""


def wait_until(condition: Callable[[], object], what: str | Callable[[], str]) -> None:
    """Poll a condition, with a deadline."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, (
            f"waited {PATIENCE} s for {what if isinstance(what, str) else what()}"
        )
        time.sleep(0.005)
