"""Files made to hurt, and the command line in little memory, which must refuse them in one line."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from onnx import FunctionProto, NodeProto, helper
from onnx_models import node
from processes import COMMAND

KINDS = ("pipe", "socket", "folder", "endless", "nothing")
_MOST_KIB = 12 << 20
"""Address space of every process: libraries map some of it; a bomb takes more, or all of the
host's.
"""
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""Else libraries reserve memory per core."""


def special_file(folder: Path, kind: str, name: str = "special") -> Path:
    """Something at a path that is no regular file, or is missing."""
    path = folder / name
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            here = os.getcwd()
            os.chdir(folder)  # addresses of sockets are short
            made.bind(name)
            os.chdir(here)
    elif kind == "folder":
        path.mkdir()
    elif kind == "endless":
        path.symlink_to("/dev/zero")
    return path


def refused(status: int, *phrases: str, arguments: Sequence[object], timeout: float = 60) -> None:
    """`rankmesh ARGUMENTS` ends with `status` and one line that has all phrases, in bounded memory
    and time.
    """
    limited = [
        "bash",
        "-c",
        f'ulimit -v {_MOST_KIB}; exec "$@"',
        "rankmesh",
        *COMMAND,
        *map(str, arguments),
    ]
    done = subprocess.run(
        limited,
        capture_output=True,
        text=True,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **_ONE_THREAD},
    )
    lines = [line for line in done.stderr.splitlines() if ", device cpu: " not in line]
    assert (done.returncode, len(lines)) == (status, 1), done.stderr[-2000:]
    assert lines[0].startswith("rankmesh: ") and len(lines[0]) < 2000
    for phrase in phrases:
        assert phrase in lines[0], lines[0]


def function(name: str, *callees: str) -> FunctionProto:
    """A local function of ONNX that calls others one after the other; without any it negates."""
    values = ["a", *(f"v{at}" for at in range(1, len(callees))), "b"]
    nodes = [calling(callee, values[at], values[at + 1]) for at, callee in enumerate(callees)]
    return helper.make_function(
        "own",
        name,
        ["a"],
        ["b"],
        nodes or [node("Neg", "a", "b")],
        [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)],
    )


def calling(callee: str, taken: str, made: str) -> NodeProto:
    """A node that calls a local function."""
    return helper.make_node(callee, [taken], [made], domain="own")
