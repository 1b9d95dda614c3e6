"""Limits of a process and of the system: told in one sentence, before anything is taken."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable

import pytest

from rankmesh.comm.errors import InputError, UsageError, error_parts
from rankmesh.comm.limits import require_files, require_ranks
from rankmesh.comm.processes.sliced_model import parse_mesh
from rankmesh.compiler.slicing.slicer import PlanGoal
from rankmesh.orchestrator.config.settings import ModelSettings
from rankmesh.worker.executors.registry import open_executor
from rankmesh.worker.executors.settings import ExecutorSettings

pytestmark = pytest.mark.pure

HUGE = 10**9


@pytest.mark.parametrize(
    "ask",
    [
        lambda: ModelSettings("m.onnx", replicas=HUGE),
        lambda: ModelSettings("m.onnx", ranks=HUGE),
        lambda: ModelSettings("m.onnx", threads=HUGE),
        lambda: open_executor(ExecutorSettings(threads=HUGE)),
        lambda: PlanGoal(HUGE),
        lambda: parse_mesh("tensor=999,pipeline=999,data=999", None),
    ],
)
def test_counts_that_no_host_has_are_refused(ask: Callable[[], object]) -> None:
    with pytest.raises(UsageError, match=r"got \d+, expected at most \d+"):
        ask()


def test_ranks_need_open_files() -> None:
    with pytest.raises(UsageError, match=r"^100000000 ranks may need \d+ open files.*ulimit -n"):
        require_ranks(HUGE // 10)


def test_limit_of_open_files_is_raised_as_far_as_it_may() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        require_files(300, "a test")
        assert 300 < resource.getrlimit(resource.RLIMIT_NOFILE)[0] <= hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.EMFILE, "ulimit -n"),
        (errno.ENFILE, "fs.file-max"),
        (errno.EFBIG, "ulimit -f"),
        (errno.ENOSPC, "free some"),
        (errno.EDQUOT, "free some"),
    ],
)
def test_errors_of_the_system_that_tell_of_a_limit(number: int, remedy: str) -> None:
    name, text, trace = error_parts(OSError(number, os.strerror(number), "/place"))
    assert (name, trace) == ("UsageError", "") and remedy in text


def test_errors_do_not_repeat_all_names() -> None:
    names = [f"name{number}" for number in range(500_000)]
    text = str(InputError(f"m: got the inputs {names}, expected ['x']."))
    assert len(text) < 20_000 and text.startswith("m: got") and text.endswith("expected ['x'].")
    assert "characters are left out" in text
