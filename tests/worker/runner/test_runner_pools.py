"""[shared_thread_pool]: how many threads a request has, whose they are, and that it is so in a
running process.
"""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

import numpy as np
import onnxruntime  # noqa: F401  # has a thread of its own, which is none of a runner's
import pytest
from mindir_models import fails, file_of
from onnx import save
from onnx_models import model, node

from rankmesh import Context, ModelParallelRunner, Tensor
from rankmesh.compiler.model_file.config import Config
from rankmesh.worker.runner.threads import ThreadPools, WorkerLayout, plan_pools


def context(inter_op: int = 2) -> Context:
    made = Context()
    made.cpu.inter_op_parallel_num = inter_op
    return made


def section(
    enable: str = "true", limit: object = "", remaining: object = ""
) -> dict[str, dict[str, str]]:
    entries = {
        "enable_shared_thread_pool": enable,
        "thread_num_limit_per_worker": str(limit),
        "thread_num_remaining_per_worker": str(remaining),
    }
    return {"shared_thread_pool": {key: value for key, value in entries.items() if value}}


def planned(layout: WorkerLayout, sections: dict[str, dict[str, str]]) -> ThreadPools:
    return plan_pools(Config(sections), context(), layout)


@pytest.mark.parametrize(
    ("layout", "sections", "expected"),
    [
        (WorkerLayout(3, 1), {}, ThreadPools(1, 0)),
        (
            WorkerLayout(3, 2),
            {},
            ThreadPools(1, 3),
        ),  # all share what is beside the workers' own threads
        (WorkerLayout(3, 2), section("false"), ThreadPools(3, 1)),  # each keeps its own
        (WorkerLayout(3, 1), section("false"), ThreadPools(1, 0)),
        (
            WorkerLayout(4, 2),
            section(),
            ThreadPools(2, 3),
        ),  # at most 2 * 2 threads for a request; 4 helpers at least
        (WorkerLayout(4, 2), section('"True"'), ThreadPools(2, 3)),
        (WorkerLayout(4, 2), section(limit=3), ThreadPools(2, 2)),
        (WorkerLayout(4, 2), section(limit=5), ThreadPools(1, 4)),
        (WorkerLayout(4, 2), section(limit=10), ThreadPools(1, 7)),  # there are only 8 threads
        (
            WorkerLayout(4, 2),
            section(limit=10, remaining=1),
            ThreadPools(1, 4),
        ),  # 3 workers lend one each
        (WorkerLayout(4, 2), section(limit=10, remaining=2), ThreadPools(4, 1)),  # nobody lends any
        (WorkerLayout(1, 4), section(), ThreadPools(1, 3)),
        (WorkerLayout(3, 1), section(), ThreadPools(1, 1)),  # what one lends
        (WorkerLayout(3, 1), section(remaining=1), ThreadPools(1, 0)),
    ],
)
def test_pools(
    layout: WorkerLayout, sections: dict[str, dict[str, str]], expected: ThreadPools
) -> None:
    assert planned(layout, sections) == expected


def test_threads_of_a_pool_are_where_its_workers_are() -> None:
    bound = WorkerLayout(4, 2, (0, 1, 2, 3, 4, 5, 6, 7))
    assert ThreadPools(1, 4).cores(0, bound) == [0, 1, 3, 5, 7]
    assert [ThreadPools(2, 2).cores(pool, bound) for pool in range(2)] == [[0, 1, 5], [2, 3, 7]]
    assert ThreadPools(2, 3).cores(0, bound) == [0, 1, 5, 0]
    assert ThreadPools(1, 1).cores(0, WorkerLayout(2, 1, (3, 1))) == [3, 3]
    assert ThreadPools(1, 4).cores(0, WorkerLayout(4, 2)) == ()


@pytest.mark.parametrize(
    ("sections", "error"),
    [
        (
            section(limit=2),
            "[shared_thread_pool] thread_num_limit_per_worker is 2, expected more than "
            "thread_num (2) and "
            "at most 10.",
        ),
        (section(limit=11), "[shared_thread_pool] thread_num_limit_per_worker is 11"),
        (section(limit=-1), "[shared_thread_pool] thread_num_limit_per_worker is -1"),
        (
            section(remaining=3),
            "[shared_thread_pool] thread_num_remaining_per_worker is 3, expected 0 to "
            "thread_num (2).",
        ),
        (section(remaining=-1), "[shared_thread_pool] thread_num_remaining_per_worker is -1"),
    ],
)
def test_numbers_out_of_range_fail_the_build(
    sections: dict[str, dict[str, str]], error: str
) -> None:
    made = context()
    made.cpu.thread_num, made.parallel.workers_num, made.parallel.config_info = 2, 2, sections
    fails(
        RuntimeError,
        f"ModelParallelRunner's build from file failed! Error is {error}",
        ModelParallelRunner().build_from_file,
        file_of("mlp"),
        made,
    )


@pytest.mark.parametrize(
    ("sections", "inter_op", "text"),
    [
        (
            section(limit="many"),
            2,
            "thread_num_limit_per_worker is 'many', which is no whole number",
        ),
        (section(remaining="0.5"), 2, "thread_num_remaining_per_worker is '0.5'"),
        (section(limit=99), 1, "it needs inter_op_parallel_num above 1"),
        (section(), 0, "it needs inter_op_parallel_num above 1"),
    ],
)
def test_what_has_no_effect_is_said(
    sections: dict[str, dict[str, str]], inter_op: int, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert plan_pools(Config(sections), context(inter_op), WorkerLayout(4, 2)) == ThreadPools(
            1, 4
        )
    assert f"[shared_thread_pool] has no effect: {text}" in caplog.text


def seconds_of_threads() -> dict[str, float]:
    """The processor time of each thread of this process so far."""
    found = {}
    for task in os.listdir("/proc/self/task"):
        try:
            found[task] = (
                int(Path(f"/proc/self/task/{task}/schedstat").read_text().split()[0]) / 1e9
            )
        except FileNotFoundError:  # it has ended meanwhile
            continue
    return found


@pytest.fixture(scope="module")
def products(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Four products of 1024 rows, columns and sums: work for tens of milliseconds for every
    thread."""
    path = tmp_path_factory.mktemp("products") / "m.onnx"
    weight = np.zeros((1024, 1024), np.float32)
    names = ["x", *(f"v{number}" for number in range(3)), "y"]
    nodes = [node("MatMul", f"{a} w", b) for a, b in zip(names, names[1:], strict=False)]
    save(model(nodes, {"x": [1024, 1024]}, {"y": [1024, 1024]}, constants={"w": weight}), str(path))
    return str(path)


@pytest.mark.parametrize(
    ("sections", "new", "busy"),
    [
        ({}, 2, 3),
        (section("false"), 2, 2),
        (section(limit=4), 3, 4),
        (section(limit=3), 2, 3),
        (section(limit=4, remaining=2), 2, 2),
    ],
)
def test_a_request_has_the_threads_that_it_may_have(
    products: str, sections: dict[str, dict[str, str]], new: int, busy: int
) -> None:
    """Two workers with two threads each: `new` threads of pools in all, `busy` threads that one
    request runs in.

    On a machine with other work a thread may come too late for a request: no request has more, and
    some have as many.
    """
    made, runner = context(), ModelParallelRunner()
    made.cpu.thread_num, made.parallel.workers_num, made.parallel.config_info = 2, 2, sections
    before = set(seconds_of_threads())
    runner.build_from_file(products, made)
    inputs = [Tensor(np.zeros((1024, 1024), np.float32))]
    for _ in range(2):
        runner.predict(inputs)  # on both workers, then on one
    mine = set(seconds_of_threads()) - before
    assert len(mine) == 2 + new
    deadline, seen = time.monotonic() + 60, 0
    while seen < busy:
        assert time.monotonic() < deadline, f"{seen} threads at most"
        earlier = seconds_of_threads()
        runner.predict(inputs)
        later = seconds_of_threads()
        spent = [later[task] - earlier[task] for task in mine]
        seen = sum(one > 0.02 * sum(spent) for one in spent)
    assert seen == busy, spent
