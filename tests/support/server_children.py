"""Children of a server in tests: which they are."""

from __future__ import annotations

from pathlib import Path


def server_children(parent: int) -> list[int]:
    """The server processes of `rankmesh serve`, by their ids."""
    return [one for one in _children(parent) if b"server.processes.child" in _command(one)]


def ranks_of(parent: int) -> list[int]:
    """Its ranks, by their ids."""
    return [one for one in _children(parent) if b"rank_loop" in _command(one)]


def _children(parent: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{parent}/task").iterdir():
        found += [int(one) for one in (task / "children").read_text().split()]
    return found


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
