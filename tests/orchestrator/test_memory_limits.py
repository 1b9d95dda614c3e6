"""Control groups that allow less memory than the host has: requests that do not fit are told so,
with the limit.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from namespaces import mounted, require_namespaces
from onnx import save
from onnx_models import model, node
from processes import COMMAND, PATIENCE, segments, wait_until
from served_models import doubler

_MIB = 1 << 20
_LIMIT = 700
_ASK = """
import sys, numpy, rankmesh
with rankmesh.Orchestrator(sys.argv[1], cache=False) as orchestrator:
    for size in map(int, sys.argv[2:]):
        x = numpy.broadcast_to(numpy.float32(0), (size, 4))  # without memory of its own
        try:
            print(orchestrator.predict(*([numpy.array([size])] if sys.argv[1].endswith("wide.onnx") else [x, x[0, :1]]))["y"].shape)
        except rankmesh.RankmeshError as error:
            print(type(error).__name__, str(error).replace(chr(10), " "), error.__cause__)
"""  # noqa: E501


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group of _LIMIT MiB below this process's own; skips where none may be made."""
    found = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    own = next(
        (Path(f"/sys/fs/cgroup/memory{path}") for _, names, path in found if names == "memory"),
        None,
    )
    name = "memory.limit_in_bytes"
    if own is None:
        own, name = (
            next(Path(f"/sys/fs/cgroup{path}") for _, names, path in found if not names),
            "memory.max",
        )
    path = own / f"rankmesh-test-{os.getpid()}"
    try:
        path.mkdir()
    except OSError as error:
        pytest.skip(f"needs to make a control group: {error}")
    try:
        (path / name).write_text(str(_LIMIT * _MIB))
        for swap, most in (("memory.swap.max", 0), ("memory.memsw.limit_in_bytes", _LIMIT * _MIB)):
            if (path / swap).exists():
                (path / swap).write_text(str(most))
    except OSError as error:
        path.rmdir()
        pytest.skip(f"needs to limit a control group's memory: {error}")
    yield path
    wait_until(lambda: not (path / "cgroup.procs").read_text(), "the group's processes to end")
    path.rmdir()


def run(group: Path, *arguments: str) -> list[str]:
    """The lines of the program in the group."""
    ran = ended(group, sys.executable, "-c", _ASK, *arguments)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def ended(group: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """A command in the group."""
    return subprocess.run([*into(group), *command], capture_output=True, text=True, timeout=250)


def into(group: Path) -> list[str]:
    """What a command begins with to run in the group."""
    return ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]


def wide(folder: Path) -> str:
    """A model whose rank needs as many floats as its input says."""
    made = model(
        [node("ConstantOfShape", "n", "z"), node("ReduceMax", "z", "y", keepdims=1)],
        {"n": (np.int64, [1])},
        {"y": [1]},
    )
    save(made, folder / "wide.onnx")
    return str(folder / "wide.onnx")


def test_tensors_that_the_group_has_no_memory_for_are_refused(tmp_path: Path, group: Path) -> None:
    """With the limit; without it the kernel would kill whoever writes them."""
    refused, answered = run(group, doubler(tmp_path), str(_LIMIT * _MIB // 16), "1000")
    assert re.fullmatch(
        rf"OutOfMemory .*bytes do not fit.* the memory that requests share may have {_LIMIT * _MIB} "  # noqa: E501
        rf"\(the limit of its control group is {_LIMIT} MiB, /sys/.*\)\. Send less.*",
        refused,
    )
    assert answered == "(1000, 4)"


def test_a_rank_that_the_group_has_no_memory_for_is_told_with_the_limit(
    tmp_path: Path, group: Path
) -> None:
    killed, answered = run(group, wide(tmp_path), str(_LIMIT * _MIB), "1000")
    assert (
        killed.startswith("Poisoned ")
        and (
            f"was killed by SIGKILL (out of memory? The limit of its control group is {_LIMIT} "
            "MiB, "
        )
        in killed
    )
    assert answered == "(1,)"


def test_a_run_whose_rank_is_killed_for_memory_ends_with_the_limit(
    tmp_path: Path, group: Path
) -> None:
    np.savez(tmp_path / "large.npz", n=np.array([_LIMIT * _MIB]))
    done = ended(group, *COMMAND, "run", wide(tmp_path), "--inputs", f"{tmp_path}/large.npz")
    assert done.returncode == 4 and "Traceback" not in done.stderr
    killed = f"was killed by SIGKILL (out of memory? The limit of its control group is {_LIMIT} MiB"
    assert killed in done.stderr


def test_a_server_that_is_killed_for_memory_leaves_nothing(tmp_path: Path, group: Path) -> None:
    """The kernel ends its ranks with it; nothing could tell why but the kernel's own log."""
    started = [*into(group), *COMMAND, "serve", doubler(tmp_path), "--port", "0"]
    before = segments()
    with subprocess.Popen(started, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None and "listening" in server.stderr.readline()
        Path(f"/proc/{server.pid}/oom_score_adj").write_text("1000")  # before all others
        try:
            ended(group, sys.executable, "-c", f"b'x' * {_LIMIT * _MIB}")
            assert server.wait(PATIENCE) == -signal.SIGKILL
        finally:
            server.kill()
    wait_until(lambda: not (group / "cgroup.procs").read_text(), "the ranks to end")
    assert segments() == before


@pytest.mark.parametrize(("said", "expected"), [("max", 0), (str(300 * _MIB), 300)])
def test_the_limit_of_a_pod(said: str, expected: int) -> None:
    """As cgroup v2 shows it in a container: that of its own group, at the root of what it sees."""
    require_namespaces()
    mounts = ["mount -t tmpfs none /sys/fs/cgroup", f"echo {said} > /sys/fs/cgroup/memory.max"]
    program = "from rankmesh.comm.host.resources import memory_limit; print(memory_limit().note)"
    ran = subprocess.run(
        mounted(mounts, [sys.executable, "-c", program]), capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == (
        f"the limit of its control group is {expected} MiB, /sys/fs/cgroup/memory.max"
        if expected
        else ""
    )
