"""Processes of one user without capabilities: one that tries to read another's memory, and one that
has some.

Both have all the rights of the user that runs the tests, and where that is root no more than any
other user has.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from told_process import ToldProcess

_FORK = multiprocessing.get_context("fork")
_LIBC = ctypes.CDLL(None, use_errno=True)
_DROP_FROM_BOUNDING_SET, _CAPABILITIES, _VERSION_3 = 24, 64, 0x20080522


def drop_capabilities() -> None:
    """Have none from now on, nor after an exec."""
    for capability in range(_CAPABILITIES):
        _LIBC.prctl(_DROP_FROM_BOUNDING_SET, capability, 0, 0, 0)
    _LIBC.capset((ctypes.c_uint32 * 2)(_VERSION_3, 0), (ctypes.c_uint32 * 6)())


class Attacker(ToldProcess):
    """Opens what it can of another process, keeps it, and looks into it later.

    Commands: `look PID` opens its memory files, `watch PID` those of its children from their birth
    on until it is `stop`ped, `open PATH` a file for reading and writing. They return
    PermissionError, or how many files are open. `search BYTES` names those that have these bytes,
    `read` and `write` go to an address of the last one.
    """

    def __init__(self) -> None:
        self.pipe, theirs = _FORK.Pipe()
        self.process = _FORK.Process(target=_attack, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _attack(pipe: Connection) -> None:
    drop_capabilities()
    kept: dict[str, int] = {}
    with suppress(EOFError):
        while True:
            command, *arguments = pipe.recv()
            try:
                pipe.send(_COMMANDS[command](kept, pipe, *arguments))
            except OSError as error:
                pipe.send(type(error).__name__)


def _look(kept: dict[str, int], _: Connection, pid: int) -> int:
    for entry in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):
            path = f"/proc/{pid}/fd/{entry}"
            name = os.readlink(path)
            if name.startswith("/memfd:rankmesh"):
                kept[f"{pid} {name}"] = os.open(path, os.O_RDONLY)
    return len(kept)


def _watch(kept: dict[str, int], pipe: Connection, pid: int) -> list[str]:
    """The memory of children that it came to until it was stopped, by name; there must be children
    by then.
    """
    pipe.send("watching")
    stopped = False
    while not stopped:
        stopped = pipe.poll()
        children = list(_children(pid))
        for child in children:
            with suppress(OSError):
                _look(kept, pipe, child)
    pipe.recv()
    assert children
    return sorted(name.split()[1] for name in kept)


def _children(pid: int) -> Iterator[int]:
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            yield from map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())


def _open(kept: dict[str, int], _: Connection, path: str) -> int:
    kept[path] = os.open(path, os.O_RDWR)
    return len(kept)


def _search(kept: dict[str, int], _: Connection, wanted: bytes) -> list[str]:
    return [name for name, fd in kept.items() if wanted in os.pread(fd, os.fstat(fd).st_size, 0)]


def _read(kept: dict[str, int], _: Connection, address: int, size: int) -> bytes:
    return os.pread(list(kept.values())[-1], size, address)


def _write(kept: dict[str, int], _: Connection, address: int, data: bytes) -> int:
    return os.pwrite(list(kept.values())[-1], data, address)


_COMMANDS: dict[str, Any] = {
    "look": _look,
    "watch": _watch,
    "open": _open,
    "search": _search,
    "read": _read,
    "write": _write,
}

SAY = """
import sys
def say(*words):
    print(*words, flush=True)
    sys.stdin.readline()
"""
"""The start of a victim's script: `say` waits until the test says `go`."""


class Victim:
    """A Python program that stops wherever it says something."""

    def __init__(self, folder: Path, script: str, *arguments: str, **environment: str) -> None:
        path = folder / "victim.py"
        path.write_text(SAY + script)
        self._process = subprocess.Popen(
            [sys.executable, str(path), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            preexec_fn=drop_capabilities,
            env={**os.environ, **environment},
        )
        self.pid = self._process.pid

    def said(self) -> str:
        """What it says next; "" at its end."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def go(self) -> None:
        """Let it go on."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()
