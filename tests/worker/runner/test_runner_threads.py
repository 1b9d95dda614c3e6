"""How many workers and threads, on which cores."""

from __future__ import annotations

import logging
import os
import threading

import pytest
from mindir_models import file_of, saved
from processes import wait_until

from rankmesh import Context, ModelParallelRunner, UsageError
from rankmesh.worker.api_types.device_context import CpuContext
from rankmesh.worker.runner.threads import UsableCores, WorkerLayout, plan_workers


def machine(cores: int, count: int = 0) -> UsableCores:
    return UsableCores(tuple(range(cores)), count or cores)


def cpu(threads: int = 0, mode: int = 0, cores: list[int] | None = None) -> CpuContext:
    made = CpuContext()
    made.thread_num, made.thread_affinity_mode, made.thread_affinity_core_list = (
        threads,
        mode,
        cores or [],
    )
    return made


@pytest.mark.parametrize(
    ("cores", "threads", "workers", "expected"),
    [
        (2, 1, 3, (3, 1)),  # the tutorial's, on a small machine: more workers than cores are fine
        (16, 0, 0, (2, 8)),  # half of the cores
        (16, 0, 4, (4, 4)),  # reduced until workers times threads fit
        (16, 4, 0, (4, 4)),
        (16, 4, 8, (8, 4)),  # what was asked for stays
        (64, 0, 0, (8, 8)),  # 8 threads where there are many cores
        (64, 0, 16, (16, 4)),
        (1, 0, 0, (1, 1)),
        (1, 0, 5, (5, 1)),
        (4, 8, 0, (1, 8)),
    ],
)
def test_numbers_of_workers_and_threads(
    cores: int, threads: int, workers: int, expected: tuple[int, int]
) -> None:
    layout = plan_workers(cpu(threads), workers, machine(cores))
    assert (layout.workers, layout.threads, layout.cores) == (*expected, ())


def test_too_many_workers_are_refused() -> None:
    assert plan_workers(cpu(1), 20, machine(4)).workers == 20
    with pytest.raises(
        UsageError,
        match=r"workers_num is 21, expected at most 20: 5 for each of the 4 usable cores",
    ):
        plan_workers(cpu(1), 21, machine(4))


def test_too_many_threads_are_clamped(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert plan_workers(cpu(21), 1, machine(4)).threads == 20
    assert (
        "thread_num is 21, more than 5 for each of the 4 usable cores: 20 are used" in caplog.text
    )


def test_big_cores_are_the_strongest() -> None:
    layout = plan_workers(cpu(2, mode=1), 2, UsableCores((4, 5, 6, 7, 0, 1, 2, 3), 8))
    assert layout == WorkerLayout(2, 2, (4, 5, 6, 7))
    assert [list(layout.cores_of(worker)) for worker in range(2)] == [[4], [6]]
    assert [list(layout.helper_cores(worker)) for worker in range(2)] == [[5], [7]]


def test_listed_cores_win_over_the_mode() -> None:
    assert plan_workers(cpu(1, mode=2, cores=[3, 1]), 2, machine(4)).cores == (3, 1)


@pytest.mark.parametrize("cores", [[0], [0, 1, 2], [0, 9]])
def test_a_list_has_one_usable_core_per_thread(cores: list[int]) -> None:
    with pytest.raises(
        UsageError, match=r"expected 2 ids \(thread_num times workers_num\) out of \[0, 1, 2, 3\]"
    ):
        plan_workers(cpu(1, cores=cores), 2, machine(4))


def test_middle_cores_are_refused() -> None:
    with pytest.raises(UsageError, match=r"thread_affinity_mode is 2 \(middle cores\)"):
        plan_workers(cpu(1, mode=2), 1, machine(4))


def test_more_bound_threads_than_cores_are_refused() -> None:
    with pytest.raises(UsageError, match="thread_num is 5, and 4 cores can be bound to"):
        plan_workers(cpu(5, mode=1), 1, machine(4))


@pytest.mark.parametrize("bound", [cpu(1, mode=1), cpu(1, cores=[0, 1])])
def test_no_binding_where_the_process_may_not_use_all_cores(
    bound: CpuContext, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert plan_workers(bound, 2, machine(4, count=8)).cores == ()
    assert "may use 4 of 8 cores: no thread is bound" in caplog.text


def test_workers_and_the_threads_of_sessions_are_where_they_were_bound() -> None:
    """Two workers with two threads each on the cores [last, 0, last, 0]: workers on `last`, pool
    threads on 0.
    """
    here = UsableCores.here()
    if here.restricted or here.count < 2:
        pytest.skip(
            f"needs all cores of a machine of several; this process may use {here.cores} of "
            f"{here.count}"
        )
    last = max(here.cores)
    before, mine = set(os.listdir("/proc/self/task")), os.sched_getaffinity(0)
    context, runner = Context(), ModelParallelRunner()
    context.cpu.thread_num, context.parallel.workers_num = 2, 2
    context.cpu.thread_affinity_core_list = [last, 0, last, 0]
    runner.build_from_file(file_of("mlp"), context)
    inputs = runner.get_inputs()
    inputs[0].set_data_from_numpy(saved("mlp")[0][0])
    runner.predict(inputs)
    new = {int(task) for task in set(os.listdir("/proc/self/task")) - before}
    workers = {
        t.native_id for t in threading.enumerate() if t.name.startswith("rankmesh-runner")
    } & new

    def bound(core: int, among: set[int]) -> int:
        return sum(os.sched_getaffinity(task) == {core} for task in among)

    # each thread binds itself, some time after it was started
    wait_until(lambda: bound(last, workers) == 2, "the workers to be bound")
    wait_until(lambda: bound(0, new - workers) == 2, "the threads of the sessions to be bound")
    assert os.sched_getaffinity(0) == mine


def test_this_machine_has_the_cores_that_the_process_may_use() -> None:
    here = UsableCores.here()
    assert 1 <= len(here.cores) <= len(os.sched_getaffinity(0))
    assert set(here.cores) <= os.sched_getaffinity(0)
