"""Many clients, one runner: everybody gets results of their own, whatever the others do."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from encrypted import KEY, encrypt_file
from mindir_models import built, fails, file_of, saved
from primitives import Parameter, Writer, same

from rankmesh import Context, InputError, ModelParallelRunner, RunnerConfig, Tensor
from rankmesh.worker.runner.workers import RunnerBusy

CLIENTS = 8
DEADLINE = 60.0


def runner_of(
    path: str, workers: int = 2, threads: int = 1, **sections: dict[str, str]
) -> ModelParallelRunner:
    context = Context()
    context.cpu.thread_num, context.parallel.workers_num = threads, workers
    context.parallel.config_info = sections
    runner = ModelParallelRunner()
    runner.build_from_file(path, context)
    return runner


def answers(runner: ModelParallelRunner, arrays: list[np.ndarray]) -> list[np.ndarray]:
    return [
        tensor.get_data_to_numpy() for tensor in runner.predict([Tensor(array) for array in arrays])
    ]


def together(work: Callable[[int], Any], count: int = CLIENTS) -> list[Any]:
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, range(count)))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["mlp", "mobilenetv2", "gpt2", "multi_in_out", "cf_while"])
def test_every_client_gets_its_own_results(name: str, threads: int) -> None:
    """Bit for bit those of a Model; every client has other inputs."""
    model, (inputs, _) = built(name), saved(name)
    runner = runner_of(file_of(name), 3, threads)
    mine = [
        [
            np.roll(array, i, axis=0) if array.dtype.kind == "i" and array.ndim else array
            for array in inputs
        ]
        if inputs[0].dtype.kind == "i"
        else [np.asarray(array * (1 + i / 8), array.dtype) for array in inputs]
        for i in range(CLIENTS)
    ]
    alone = [[t.get_data_to_numpy() for t in model.predict(arrays)] for arrays in mine]

    def work(i: int) -> None:
        for _ in range(10):
            for got, expected in zip(answers(runner, mine[i]), alone[i], strict=True):
                np.testing.assert_array_equal(got, expected)

    together(work)


def test_results_belong_to_the_client() -> None:
    runner, (x,) = runner_of(file_of("mlp"), 1), saved("mlp")[0]
    (first,) = answers(runner, [x])
    kept = first.copy()
    answers(runner, [x * 3])
    np.testing.assert_array_equal(first, kept)


@pytest.mark.parametrize("name", ["dyn_mlp", "mlp"])
def test_each_request_may_have_another_shape(name: str) -> None:
    """Of a model with an open batch, and of one that is built anew for every batch (more of them
    than are kept).
    """
    x = saved(name)[0][0]
    runner, model = runner_of(file_of(name), 2), built(name)
    expected = {}
    for rows in range(1, 8):
        model.resize(model.get_inputs(), [[rows, *x.shape[1:]]])
        expected[rows] = model.predict([np.resize(x, (rows, *x.shape[1:]))])[0].get_data_to_numpy()

    def work(i: int) -> None:
        for turn in range(14):
            rows = 1 + (i + turn) % 7
            same(answers(runner, [np.resize(x, (rows, *x.shape[1:]))])[0], expected[rows])

    together(work, 4)


def test_shapes_are_set_on_the_inputs_first() -> None:
    runner, x = runner_of(file_of("dyn_mlp")), saved("dyn_mlp")[0][0]
    (tensor,) = runner.get_inputs()
    assert -1 in tensor.shape
    tensor.shape = [3, *x.shape[1:]]
    tensor.set_data_from_numpy(np.resize(x, (3, *x.shape[1:])).reshape(-1))
    assert runner.predict([tensor])[0].shape[0] == 3


def test_a_flat_array_of_the_right_size_is_taken() -> None:
    """As Model takes it: document 002's input comes from a file."""
    runner, ((x,), (y,)) = runner_of(file_of("mobilenetv2")), saved("mobilenetv2")
    same(answers(runner, [x.reshape(-1)])[0], y)


def test_a_request_that_fails_harms_no_other() -> None:
    runner, ((x,), (y,)) = runner_of(file_of("mlp"), 3), saved("mlp")
    bad = [np.ones((4, 17), np.float32), np.ones((4, 16), np.float64), np.ones((4, 15), np.float32)]
    fails(
        RuntimeError, "predict failed!", answers, runner, [bad[0]]
    )  # even where it comes first of all

    def work(i: int) -> None:
        for turn in range(15):
            if i % 2:
                fails(RuntimeError, "predict failed!", answers, runner, [bad[turn % len(bad)]])
            else:
                same(answers(runner, [x])[0], y)

    together(work)


def test_first_requests_at_the_same_time() -> None:
    (x,), (y,) = saved("mlp")
    for _ in range(5):
        runner = runner_of(file_of("mlp"), 4)
        for (got,) in together(lambda _, runner=runner: answers(runner, [x])):  # type: ignore[misc]
            same(got, y)


def test_more_than_a_thousand_waiting_requests_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a limit of 2 instead of 1000, one worker, and a request in it that waits for the
    test."""
    monkeypatch.setattr("rankmesh.worker.runner.workers.MAX_WAITING", 2)
    runner, ((x,), (y,)) = runner_of(file_of("mlp"), 1), saved("mlp")
    answers(runner, [x])
    pool = runner._pool
    assert pool is not None
    program = runner._pool._workers[0]._programs._exported[0]  # type: ignore[union-attr]
    entered, leave = threading.Event(), threading.Event()
    predict = type(program).predict

    def slow(self: Any, inputs: Any) -> Any:
        entered.set()
        assert leave.wait(DEADLINE)
        return predict(self, inputs)

    monkeypatch.setattr(type(program), "predict", slow)
    with ThreadPoolExecutor(3) as clients:
        waiting = [clients.submit(answers, runner, [x])]
        assert entered.wait(DEADLINE)
        queue = pool._tasks
        waiting += [clients.submit(answers, runner, [x]) for _ in range(2)]
        while len(queue._waiting) < 2:
            assert not any(one.done() for one in waiting)
        fails(
            RunnerBusy,
            "predict failed! Error is all workers are busy and 2 requests wait",
            answers,
            runner,
            [x],
        )
        leave.set()
        for one in waiting:
            same(one.result(DEADLINE)[0], y)


def test_one_worker_answers_one_after_the_other_and_several_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from rankmesh.worker.runtime.program import Program

    (x,), _ = saved("mlp")
    for workers in (1, 3):
        runner = runner_of(file_of("mlp"), workers)
        answers(runner, [x])
        predict, inside, most, lock = Program.predict, [0], [0], threading.Lock()
        meet = threading.Barrier(workers)

        def counted(
            self: Any,
            inputs: Any,
            predict: Any = predict,
            inside: Any = inside,
            most: Any = most,
            lock: Any = lock,
            meet: Any = meet,
        ) -> Any:
            with lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
            meet.wait(DEADLINE)
            with lock:
                inside[0] -= 1
            return predict(self, inputs)

        with monkeypatch.context() as patch:
            patch.setattr(Program, "predict", counted)
            together(lambda _, runner=runner: answers(runner, [x]), 6)  # type: ignore[misc]
        assert most[0] == workers


def test_a_runner_that_is_gone_ends_its_threads_and_frees_its_model() -> None:
    (x,), _ = saved("mlp")
    before = set(threading.enumerate())
    runner = runner_of(file_of("mlp"), 3)
    answers(runner, [x])
    threads = set(threading.enumerate()) - before
    assert len([t for t in threads if t.name.startswith("rankmesh-runner")]) == 3
    programs = weakref.ref(next(iter(runner._pool._workers))._programs)  # type: ignore[union-attr]
    del runner
    gc.collect()
    for thread in threads:
        thread.join(DEADLINE)
        assert not thread.is_alive()
    del thread, threads
    assert programs() is None


def test_a_forked_process_is_told_that_the_workers_are_elsewhere() -> None:
    program = f"""
import os, numpy as np
from rankmesh import Context, ModelParallelRunner, Tensor
runner = ModelParallelRunner()
runner.build_from_file({file_of("mlp")!r}, Context())
inputs = [Tensor(np.ones((4, 16), np.float32))]
runner.predict(inputs)
pid = os.fork()
if pid == 0:
    try:
        runner.predict(inputs)
    except RuntimeError as error:
        print(error, flush=True)
    raise SystemExit(0)
else:
    print(os.waitpid(pid, 0)[1], runner.predict(inputs)[0].shape)
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=250
    )
    assert "from which this one was forked" in done.stdout, done.stderr
    assert done.stdout.splitlines()[-1].startswith("0 [4,"), done.stderr
    assert done.returncode == 0


def test_a_process_may_end_while_requests_run() -> None:
    program = f"""
import threading, numpy as np
from rankmesh import Context, ModelParallelRunner, Tensor
runner = ModelParallelRunner()
runner.build_from_file({file_of("mobilenetv2")!r}, Context())
def client():
    while True:
        try:
            runner.predict([Tensor(np.ones(t.shape, np.float32)) for t in runner.get_inputs()])
        except RuntimeError:
            return
for _ in range(4):
    threading.Thread(target=client, daemon=True).start()
runner.predict([Tensor(np.ones(t.shape, np.float32)) for t in runner.get_inputs()])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=250
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_an_encrypted_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = encrypt_file(Path(file_of("mlp")), tmp_path / "secret.mindir")
    fails(RuntimeError, "failed! Error is", runner_of, str(path))
    monkeypatch.setenv("RANKMESH_KEY", KEY.hex())
    (x,), (y,) = saved("mlp")
    same(answers(runner_of(str(path)), [x])[0], y)


def test_the_model_cache_is_used(tmp_path: Path) -> None:
    (x,), (y,) = saved("mlp")
    for _ in range(2):
        same(
            answers(
                runner_of(file_of("mlp"), common_context={"model_cache_dir": str(tmp_path)}), [x]
            )[0],
            y,
        )
        for thread in threading.enumerate():
            if thread.name == "rankmesh-model-cache":
                thread.join(DEADLINE)
    assert len(list((tmp_path / "entries").iterdir())) == 1


MEMORY = """
import gc, sys
import numpy as np
from rankmesh import Context, ModelParallelRunner, Tensor

def pss():
    gc.collect()
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pss:")) / 1024

def built(path, workers, threads=1, sections={}):
    context = Context()
    context.cpu.thread_num, context.parallel.workers_num, context.parallel.config_info = threads, workers, sections
    runner = ModelParallelRunner()
    runner.build_from_file(path, context)
    runner.predict([Tensor(np.ones(t.shape, np.float32)) for t in runner.get_inputs()])
    return runner

small, large, workers, apart = sys.argv[1:]
kept = built(small, 1)
before = pss()
sections = {"shared_thread_pool": {"enable_shared_thread_pool": "false"}} if apart else {}
runner = built(large, int(workers), 2 if apart else 1, sections)
print(pss() - before)
"""  # noqa: E501


def test_workers_share_one_copy_of_the_weights(tmp_path: Path) -> None:
    """32 MiB of weights: five workers take at most 8 MiB more than one; with pools, thus sessions,
    of their own too.
    """
    writer, x = Writer(), np.ones((1, 1024), np.float32)
    key = writer.argument(x)
    for seed in range(8):
        weight = np.random.default_rng(seed).standard_normal((1024, 1024), dtype=np.float32) / 32
        key = writer.node(
            "MatMul", [key, Parameter(weight)], x, {"transpose_a": False, "transpose_b": False}
        )
    path = writer.save(tmp_path / "large.mindir", key, x)

    def megabytes(workers: int, apart: str = "") -> float:
        command = [sys.executable, "-c", MEMORY, file_of("mlp"), str(path), str(workers), apart]
        environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
        return float(
            subprocess.run(
                command, check=True, stdout=subprocess.PIPE, timeout=250, env=environment
            ).stdout
        )

    one, five, apart = megabytes(1), megabytes(5), megabytes(5, "apart")
    assert one > 24
    assert five < one + 8, f"{one:.1f} MiB with one worker, {five:.1f} MiB with five"
    assert apart < one + 12, f"{one:.1f} MiB with one worker, {apart:.1f} MiB with five apart"


@pytest.mark.parametrize("name", ["mlp", "lstm", "state_cache"])
def test_workers_with_pools_of_their_own(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    runner = runner_of(
        file_of(name), 3, 2, shared_thread_pool={"enable_shared_thread_pool": "false"}
    )
    alone = runner_of(file_of(name), 1, 2)
    inputs, _ = saved(name)
    for got, want in zip(answers(runner, inputs), answers(alone, inputs), strict=True):
        same(got, want)


def test_old_and_new_configuration_give_the_same(tmp_path: Path) -> None:
    (x,), _ = saved("mlp")
    old = ModelParallelRunner()
    old.init(file_of("mlp"), RunnerConfig(workers_num=2))
    np.testing.assert_array_equal(answers(old, [x])[0], answers(runner_of(file_of("mlp")), [x])[0])
    fails(InputError, "predict failed", old.predict, [])
