"""Threads that a Context binds, as the kernel sees them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from launched import launch, script
from mindir_models import fails, file_of

import rankmesh
from rankmesh import Context, Model, ModelType
from rankmesh.worker.executors.affinity import bound_to, choose_cores

CORES = sorted(os.sched_getaffinity(0))
SAMPLE = Path(rankmesh.__file__).parent / "launch" / "sample"
TWO = pytest.mark.skipif(len(CORES) < 2, reason="needs two cores")


def cpu(**settings: Any) -> Any:
    context = Context()
    for name, value in settings.items():
        setattr(context.cpu, name, value)
    return context.cpu


def test_nothing_is_bound_unless_asked():
    assert choose_cores(cpu(), 4, [0, 1]) == ()
    assert choose_cores(cpu(thread_num=4, thread_affinity_mode=0), 4, [0, 1]) == ()


@pytest.mark.parametrize(
    ("mode", "threads", "expected"),
    [
        (1, 2, (2, 3)),
        (1, 4, (2, 3, 0, 1)),
        (1, 5, (2, 3, 0, 1, 2)),
        (2, 2, (0, 1)),
        (2, 3, (0, 1, 2)),
    ],
)
def test_big_and_middle_cores(
    mode: int, threads: int, expected: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(
        "rankmesh.worker.executors.affinity.core_speed",
        {0: 500, 1: 500, 2: 1024, 3: 1024}.__getitem__,
    )
    assert choose_cores(cpu(thread_affinity_mode=mode), threads, [0, 1, 2, 3]) == expected


@pytest.mark.parametrize("mode", [1, 2])
def test_where_all_cores_are_alike_each_mode_takes_the_first(
    mode: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("rankmesh.worker.executors.affinity.core_speed", lambda core: 0)
    assert choose_cores(cpu(thread_affinity_mode=mode), 3, [4, 5, 6, 7]) == (4, 5, 6)


def test_a_list_of_cores_wins_over_the_mode():
    last = CORES[-1]
    assert choose_cores(
        cpu(thread_affinity_mode=1, thread_affinity_core_list=[last]), 2, CORES
    ) == (last, last)


@pytest.mark.parametrize("core", [4095, 10**6, 10**30, -1])
def test_a_core_that_is_not_there_is_named(core: int):
    before = os.sched_getaffinity(0)
    context = Context()
    context.cpu.thread_affinity_core_list = [CORES[0], core]
    fails(
        RuntimeError,
        f"build_from_file failed! Error is cpu.thread_affinity_core_list is [{CORES[0]}, "
        f"{core}], and "
        f"this process cannot run on core {core}",
        Model().build_from_file,
        file_of("mlp"),
        ModelType.MINDIR,
        context,
    )
    assert os.sched_getaffinity(0) == before


@TWO
def test_a_thread_is_bound_and_let_go():
    with pytest.raises(KeyError), bound_to([CORES[1]]):
        assert os.sched_getaffinity(0) == {CORES[1]}
        raise KeyError
    assert os.sched_getaffinity(0) == set(CORES)
    with bound_to(()):
        assert os.sched_getaffinity(0) == set(CORES)


PROGRAM = """
    import os, sys, threading, time
    import numpy as np
    import onnxruntime  # has threads of its own
    import rankmesh as mslite

    def threads():
        return {int(task) for task in os.listdir("/proc/self/task")}

    def watch(task):
        while time.monotonic() < deadline and not done.is_set():
            seen.add(tuple(sorted(os.sched_getaffinity(task))))

    context = mslite.Context()
    SETTINGS
    before, mine = threads(), os.sched_getaffinity(0)
    model = mslite.Model()
    model.build_from_file(sys.argv[1], mslite.ModelType.MINDIR, context)
    rank, after = os.environ.get("RANK"), os.sched_getaffinity(0)
    pool_threads = threads() - before
    assert rank or after == mine, "the caller's thread was moved for good"

    deadline, done, seen = time.monotonic() + 20, threading.Event(), set()
    watcher = threading.Thread(target=watch, args=(threading.get_native_id(),))
    watcher.start()
    inputs = [np.ones(t.shape, np.float32) for t in model.get_inputs()]
    while time.monotonic() < deadline and (bound := seen - {tuple(sorted(after))}) == set() and WANTED:
        model.predict(inputs)
    done.set()
    watcher.join()
    while time.monotonic() < deadline:  # each thread of the pool binds itself, some time after it was started
        pool = sorted(sorted(os.sched_getaffinity(task)) for task in pool_threads)
        if not WANTED or all(len(cores) == 1 for cores in pool):
            break
    print("caller", sorted(seen - {tuple(sorted(after))}), "pool", pool)
"""  # noqa: E501


def observed(folder: Path, settings: str, wanted: bool = True) -> str:
    """Where another thread sees the caller's thread while it predicts, and where onnxruntime's own
    threads are.
    """
    program = PROGRAM.replace("SETTINGS", settings).replace("WANTED", str(wanted))
    done = subprocess.run(
        [sys.executable, script(folder, program), file_of("mlp")],
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@TWO
@pytest.mark.parametrize(
    ("settings", "caller", "pool"),
    [
        ("context.cpu.thread_affinity_core_list = [{1}]", [1], []),
        (
            "context.cpu.thread_num = 2; context.cpu.thread_affinity_core_list = [{1}, {0}]",
            [1],
            [[0]],
        ),
        (
            "context.cpu.thread_num = 3; context.cpu.thread_affinity_core_list = [{0}, {1}]",
            [0],
            [[0], [1]],
        ),
        ("context.cpu.thread_num = 1; context.cpu.thread_affinity_core_list = [{1}, {0}]", [1], []),
    ],
    ids=["one core", "a core each", "cores repeat", "more cores than threads"],
)
def test_threads_run_on_the_listed_cores(
    tmp_path: Path, settings: str, caller: list[int], pool: list[list[int]]
):
    assert observed(tmp_path, settings.format(*CORES)) == (
        f"caller {[tuple(CORES[i] for i in caller)]} pool "
        f"{[[CORES[i] for i in cores] for cores in pool]}"
    )


@TWO
@pytest.mark.parametrize("mode", [1, 2])
def test_each_thread_gets_a_core_of_its_own_by_mode(tmp_path: Path, mode: int):
    first, second = choose_cores(cpu(thread_affinity_mode=mode), 2, CORES)
    settings = f"context.cpu.thread_num = 2; context.cpu.thread_affinity_mode = {mode}"
    assert observed(tmp_path, settings) == f"caller [({first},)] pool [[{second}]]"


@TWO
def test_without_a_binding_every_thread_may_run_anywhere(tmp_path: Path):
    assert (
        observed(tmp_path, "context.cpu.thread_num = 2", wanted=False)
        == f"caller [] pool [{CORES}]"
    )


RANKS = """
    import os, sys, time
    import numpy as np
    import rankmesh as mslite

    context = mslite.Context()
    context.cpu.thread_num = 2
    context.cpu.thread_affinity_core_list = [int(core) for core in sys.argv[2].split(",")]
    before = {int(task) for task in os.listdir("/proc/self/task")}
    model = mslite.Model()
    model.build_from_file(sys.argv[1], mslite.ModelType.MINDIR, context)
    new = {int(task) for task in os.listdir("/proc/self/task")} - before
    deadline, second = time.monotonic() + 20, [int(sys.argv[2].split(",")[1])]
    while second not in (bound := [sorted(os.sched_getaffinity(task)) for task in new]) and time.monotonic() < deadline:
        pass  # each thread of the pool binds itself, some time after it was started
    print(os.environ["RANK"], second in bound)
"""  # noqa: E501


@TWO
def test_the_pool_that_all_segments_of_a_rank_share_is_bound_too(tmp_path: Path):
    status, out, errors = launch(
        "--ranks", 2, script(tmp_path, RANKS), SAMPLE / "Matmul.mindir", f"{CORES[0]},{CORES[1]}"
    )
    assert status == 0, errors
    assert sorted(line.split("] ")[1] for line in out.splitlines()) == ["0 True", "1 True"]
