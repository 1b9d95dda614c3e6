"""The orchestration API with real ranks: what callers give and get."""

from __future__ import annotations

import asyncio
import gc
import json
import math
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mindir_models import fails, saved
from processes import PATIENCE, segments
from served_models import SAMPLE, denoiser, doubler, echo, grower

import rankmesh
from rankmesh import ModelSettings, Orchestrator, UsageError

MINDIR = Path(__file__).parents[1] / "data" / "mindir"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="module")
def sample() -> Iterator[Orchestrator]:
    with Orchestrator(SAMPLE) as orchestrator:
        yield orchestrator


@pytest.fixture(scope="module")
def double(folder: Path) -> Iterator[Orchestrator]:
    with Orchestrator(doubler(folder), lease_limit=1 << 20) as orchestrator:
        yield orchestrator


def rows(count: int, start: float = 0.0) -> np.ndarray:
    return np.arange(start, start + 4 * count, dtype=np.float32).reshape(count, 4)


BIAS = np.zeros(1, np.float32)


def expected() -> tuple[np.ndarray, np.ndarray]:
    with np.load(Path(SAMPLE).with_suffix(".npz")) as arrays:
        return arrays["in_0"], arrays["out_0"]


def test_the_sample_answers_by_name_by_position_in_place_and_awaited(sample: Orchestrator):
    x, y = expected()
    with sample.buffers() as buffers:
        buffers["x"][:] = x
        answers = [
            sample.predict({"x": x}),
            sample.predict(x),
            sample.predict(buffers),
            asyncio.run(sample.predict_async(x)),
            sample.submit({"x": x}).result(PATIENCE),
        ]
    for answer in answers:
        assert list(answer) == ["output_0"]
        np.testing.assert_allclose(answer["output_0"], y, rtol=1e-5, atol=1e-5)
    fails(rankmesh.UsageError, "given back at the end of their with block", sample.predict, buffers)


def test_every_rank_gives_its_result_if_asked(sample: Orchestrator):
    x, y = expected()
    answers = sample.predict(x, results="all")
    assert len(answers) == 2
    for answer in answers:
        np.testing.assert_allclose(answer["output_0"], y, rtol=1e-5, atol=1e-5)
    fails(rankmesh.UsageError, "results='each': expected 'once'", sample.predict, x, results="each")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (({"y": 1},), "got the inputs ['y'], expected ['x']"),
        (({"x": 1, 2: 3},), "got the inputs ['x', 2]"),
        ((), "got 0 inputs, expected 1: ['x']"),
        ((np.ones((4, 16)),), "the input 'x' is float64, expected float32: convert it with astype"),
        ((np.ones((4, 15), np.float32),), "the input 'x' has the shape [4, 15], expected [4, 16]"),
        (
            ([[1, 2], [3]],),
            "the input 'x' cannot be made an array of float32: setting an array element with a "
            "sequence",
        ),
        (("1",), "the input 'x' cannot be made an array of float32: got '1'"),
        ((None,), "the input 'x' cannot be made an array of float32: got None"),
    ],
    ids=["name", "names", "number", "dtype", "shape", "ragged", "text", "nothing"],
)
def test_wrong_inputs_are_refused_before_any_rank_sees_them(
    sample: Orchestrator, given: tuple[object, ...], text: str
):
    before = sample.metrics()["Matmul"]["refused"].get("InputError", 0)
    fails(rankmesh.InputError, text, sample.predict, *given)
    assert sample.metrics()["Matmul"]["refused"]["InputError"] == before + 1


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"timeout": -5}, "timeout: got -5, expected seconds, 0 or more"),
        ({"timeout": math.nan}, "timeout: got nan"),
        ({"timeout": "2"}, "timeout: got '2'"),
        ({"priority": "high"}, "priority='high': expected a whole number"),
        ({"priority": None}, "priority=None: expected a whole number"),
    ],
    ids=str,
)
def test_what_cannot_be_asked_is_refused(sample: Orchestrator, asked: dict[str, Any], text: str):
    fails(rankmesh.UsageError, text, sample.submit, expected()[0], **asked)


def test_numbers_that_a_whole_one_cannot_hold_are_refused(folder: Path):
    with Orchestrator(grower(folder)) as orchestrator:
        fails(
            rankmesh.InputError,
            "'n' cannot be made an array of int64: got [1.5]",
            orchestrator.predict,
            [1.5],
        )
        assert len(orchestrator.predict([3])["y"]) == 3


def test_status_names_every_rank(sample: Orchestrator):
    status = sample.status()
    assert (status.state, status.starts, status.queue_depth) == ("ready", 1, 0)
    assert [
        (one.rank, one.replica, one.state, one.stage, one.restarts, one.last_error)
        for one in status.ranks
    ] == [(0, 0, "ready", "warmed", 0, ""), (1, 0, "ready", "warmed", 0, "")]
    assert len({one.pid for one in status.ranks} - {None, os.getpid()}) == 2
    assert json.loads(json.dumps(status.to_dict()))["ranks"][1]["device"] == 1


def test_status_tells_how_long_ranks_ran_and_waited_in_collectives(sample: Orchestrator):
    before = sample.status().ranks
    sample.predict(expected()[0])
    for old, new in zip(before, sample.status().ranks, strict=True):
        ran = new.run_seconds - old.run_seconds
        assert 0 < new.collective_seconds - old.collective_seconds < ran < 60


def test_shared_memory_is_in_use_as_long_as_results_are_held(double: Orchestrator):
    kept = double.predict(rows(2, 0), BIAS)
    tensors = double.shared_memory()["tensors"]
    assert kept and 0 < tensors.used <= tensors.size <= tensors.limit
    assert double.shared_memory()["weights"].used == 0


def test_a_result_stays_valid_as_long_as_it_is_held(double: Orchestrator):
    kept = [double.predict(rows(2, start), BIAS)["y"] for start in range(40)]
    views = [answer[1:, 2] for answer in kept]
    for start, (answer, view) in enumerate(zip(kept, views, strict=True)):
        np.testing.assert_array_equal(answer, 2 * rows(2, start))
        np.testing.assert_array_equal(view, 2 * rows(2, start)[1:, 2])
    del kept
    gc.collect()
    double.predict(rows(2, 1e6), BIAS)
    np.testing.assert_array_equal(views[7], 2 * rows(2, 7)[1:, 2])


def test_a_request_that_has_no_time_is_refused_and_holds_nobody_up(double: Orchestrator):
    for number in range(20):
        late = double.submit(rows(2), BIAS, timeout=0)
        np.testing.assert_array_equal(
            double.predict(rows(2, number), BIAS, timeout=PATIENCE)["y"], 2 * rows(2, number)
        )
        with pytest.raises(rankmesh.DeadlineExceeded, match="it waited for a free rank"):
            late.result(PATIENCE)


def test_outputs_that_ranks_write_in_place_are_their_callers_as_long_as_these_hold_them(
    folder: Path,
):
    """Memory that comes back is used again, with the bindings that were made for it."""
    given = {
        "sample": np.zeros((1, 4, 8, 8), np.float32),
        "timestep": np.zeros(1, np.float32),
        "encoder_hidden_states": np.zeros((1, 7, 16), np.float32),
    }
    with Orchestrator(denoiser(folder)) as orchestrator:
        held: dict[int, np.ndarray] = {}
        for number in range(120):
            noise = orchestrator.predict({**given, "timestep": np.full(1, number, np.float32)})[
                "noise"
            ]
            if number % 3 == 0:
                held[number] = noise[0, 1:, 2]
            if number % 5 == 0:
                held.pop(number // 2, None)
        assert len(held) > 20 and all((noise == number).all() for number, noise in held.items())


def test_results_are_copied_where_leases_take_too_much_memory(double: Orchestrator):
    before = double.metrics()["doubler"]["copied_results"]
    kept = [double.predict(rows(20_000, start), BIAS)["y"] for start in range(8)]
    assert double.metrics()["doubler"]["copied_results"] > before
    for start, answer in enumerate(kept):
        np.testing.assert_array_equal(answer, 2 * rows(20_000, start))


@pytest.mark.parametrize("count", [0, 1, 3, 1000, 200_000])
def test_open_dimensions_take_any_size(double: Orchestrator, count: int):
    answer = double.predict({"bias": np.ones(1, np.float32), "x": rows(count)})
    np.testing.assert_array_equal(answer["y"], 2 * rows(count) + 1)
    np.testing.assert_array_equal(answer["s"], [1])
    with double.buffers(x=(count, 4)) as buffers:
        buffers["x"][:], buffers["bias"][:] = rows(count), 5
        np.testing.assert_array_equal(double.predict(buffers)["y"], 2 * rows(count) + 5)


def test_buffers_of_open_dimensions_need_a_shape(double: Orchestrator):
    fails(rankmesh.InputError, "the input 'x' may have any size: name its shape", double.buffers)
    fails(
        rankmesh.InputError,
        "cannot have the shape [2, 5], expected [-1, 4]",
        double.buffers,
        x=(2, 5),
    )
    fails(rankmesh.InputError, "has no input 'z'", double.buffers, z=(2,))
    assert "x" in double.buffers(x=(2, 4)) and "z" not in double.buffers(x=(2, 4))


def test_buffers_serve_the_model_that_they_are_of(double: Orchestrator, sample: Orchestrator):
    fails(
        rankmesh.UsageError,
        "belong to another model or orchestrator",
        double.predict,
        sample.buffers(),
    )


def test_outputs_whose_size_only_the_run_tells(folder: Path):
    with Orchestrator(grower(folder)) as orchestrator:
        for count in (0, 5, 300_000, 7, 2_000_000):
            answer = orchestrator.predict(np.array([count], np.int64))["y"]
            np.testing.assert_array_equal(answer, np.ones(count, np.float32))


def test_an_input_handed_on_stays_where_it_is(folder: Path):
    with Orchestrator(echo(folder, 1 << 20)) as orchestrator, orchestrator.buffers() as buffers:
        buffers["x"][:] = 3
        answer = orchestrator.predict(buffers)["y"]
        assert answer.ctypes.data == buffers["x"].ctypes.data
        copied = orchestrator.predict(np.full(1 << 20, 4, np.float32))["y"]
    np.testing.assert_array_equal(copied, np.full(1 << 20, 4, np.float32))
    np.testing.assert_array_equal(answer, np.full(1 << 20, 3, np.float32))


def test_a_model_computes_in_the_precision_that_its_settings_ask_for():
    (x,), (y,) = saved("mlp")
    path = str(MINDIR / "mlp" / "mlp.mindir")
    errors = {}
    with Orchestrator(path, precision_mode="preferred_fp16") as orchestrator:
        plan = {"*": "float32"}
        orchestrator.load(path, name="named", precision_mode="preferred_fp16", execution_plan=plan)
        for model in orchestrator.models():
            (got,) = orchestrator.predict(x, model=model).values()
            errors[model] = float(np.abs(got - y).max() / np.abs(y).max())
    assert 1e-5 < errors["mlp"] < 1e-2
    assert errors["named"] < 1e-5


@pytest.mark.pure
@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"precision_mode": "fast"}, "precision_mode: got 'fast', expected one of enforce_fp32,"),
        ({"execution_plan": {"a": "int8"}}, "execution_plan: got 'int8', expected one of float32,"),
    ],
)
def test_a_precision_that_is_not_known_is_refused(settings: dict[str, Any], text: str):
    with pytest.raises(UsageError, match=re.escape(text)):
        ModelSettings("m.mindir", **settings)


def test_a_pipeline_gives_its_last_stage_s_result():
    (x,), (y,) = saved("dist_pipeline_2")
    with Orchestrator(
        str(MINDIR / "dist_pipeline_2" / "dist_pipeline_2_rank{rank}.mindir")
    ) as orchestrator:
        futures = [orchestrator.submit(x) for _ in range(6)]
        for future in futures:
            np.testing.assert_allclose(
                next(iter(future.result(PATIENCE).values())), y, rtol=1e-4, atol=1e-5
            )


@pytest.mark.parametrize("count", [8, 80])  # of seats there are 63
def test_any_number_of_threads_may_ask(double: Orchestrator, count: int):
    wrong: list[object] = []

    def client(number: int) -> None:
        for i in range(30):
            x = rows(1 + (number + i) % 5, 100.0 * number + i)
            if not np.array_equal(double.predict(x, BIAS)["y"], 2 * x):
                wrong.append((number, i))

    threads = [threading.Thread(target=client, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not wrong and not any(thread.is_alive() for thread in threads)


def test_requests_run_as_batches_and_come_apart_again(folder: Path):
    batching = rankmesh.BatchingSettings(max_batch=64, max_delay=0.2, inputs=("x",))
    with Orchestrator(doubler(folder), batching=batching) as orchestrator:
        given = [(rows(1 + i % 3, float(i)), np.full(1, i % 2, np.float32)) for i in range(24)]
        futures = [orchestrator.submit(*one) for one in given]
        for (x, bias), future in zip(given, futures, strict=True):
            np.testing.assert_array_equal(future.result(PATIENCE)["y"], 2 * x + bias)
        assert orchestrator.metrics()["doubler"]["batches"] >= 1
        assert orchestrator.metrics()["doubler"]["answered"] == 24


def test_a_full_queue_refuses_and_cancelled_requests_never_run(folder: Path):
    with Orchestrator(grower(folder), queue_limit=4) as orchestrator:
        slow = np.array([30_000_000], np.int64)
        futures = [orchestrator.submit(slow)]
        while orchestrator.status().queue_depth < 4:
            futures.append(orchestrator.submit(slow))
        with pytest.raises(rankmesh.QueueFull, match="4 requests wait already") as caught:
            while True:
                futures.append(orchestrator.submit(slow))
        assert caught.value.depth == 4
        assert all([future.cancel() for future in futures[-4:]])
        assert len(futures[0].result(PATIENCE)["y"]) == 30_000_000
        with pytest.raises(CancelledError):
            futures[-1].result(PATIENCE)
        orchestrator.predict(np.array([1], np.int64))
        counts = orchestrator.metrics()["grower"]
        assert counts["cancelled"] == 4 and counts["accepted"] == counts["answered"] + 4


def test_several_models_from_a_file(folder: Path):
    doubler(folder), echo(folder, 8)
    file = folder / "serve.yaml"
    file.write_text(
        "models:\n  - path: doubler.onnx\n    replicas: 2\n  - path: echo.onnx\n    name: mirror\n"
    )
    with Orchestrator(config=str(file)) as orchestrator:
        x = np.arange(8, dtype=np.float32)
        np.testing.assert_array_equal(orchestrator.predict(x, model="mirror")["y"], x)
        np.testing.assert_array_equal(
            orchestrator.predict(rows(2), BIAS, model="doubler")["y"], 2 * rows(2)
        )
        assert [(one.model, one.replica) for one in orchestrator.status().ranks] == [
            ("doubler", 0),
            ("doubler", 1),
            ("mirror", 0),
        ]
        fails(
            rankmesh.UsageError,
            "no model was named: name one of doubler, mirror",
            orchestrator.predict,
            x,
        )


def test_a_replica_of_two_ranks_twice():
    x, y = expected()
    with Orchestrator(SAMPLE, ranks=2, replicas=2) as orchestrator:
        for future in [orchestrator.submit(x) for _ in range(8)]:
            np.testing.assert_allclose(future.result(PATIENCE)["output_0"], y, rtol=1e-5, atol=1e-5)
        assert [(one.replica, one.rank) for one in orchestrator.status().ranks] == [
            (0, 0),
            (0, 1),
            (1, 0),
            (1, 1),
        ]


PROGRAM = f"""
import numpy as np, os, rankmesh, sys
assert "torch" not in sys.modules
orchestrator = rankmesh.Orchestrator({SAMPLE!r})
x = np.ones((4, 16), np.float32)
print(orchestrator.predict(x)["output_0"].shape, flush=True)
if os.fork() == 0:
    try:
        orchestrator.predict(x)
    except rankmesh.UsageError as error:
        print("child:", error, flush=True)
    sys.exit(0)
os.wait()
print(orchestrator.predict(x)["output_0"].shape)
"""


@pytest.mark.parametrize("way", ["-c", "-", "file"])
def test_a_program_needs_no_main_guard_and_may_fork_and_forget(way: str, tmp_path: Path):
    before = segments()
    (tmp_path / "program.py").write_text(PROGRAM)
    arguments = {"-c": ["-c", PROGRAM], "-": ["-"], "file": [str(tmp_path / "program.py")]}[way]
    done = subprocess.run(
        [sys.executable, *arguments],
        input=PROGRAM if way == "-" else "",
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    first, child, last = done.stdout.splitlines()
    assert first == last == "(4, 16)" and child.startswith(
        "child: this orchestrator belongs to process"
    )
    assert segments() <= before


def test_models_that_cannot_be_served_say_why(tmp_path: Path):
    fails(
        rankmesh.ModelError,
        "nothing.mindir: no such file",
        Orchestrator,
        str(tmp_path / "nothing.mindir"),
    )
    (tmp_path / "broken.mindir").write_bytes(b"\x00" * 100)
    fails(rankmesh.ModelError, "broken.mindir", Orchestrator, str(tmp_path / "broken.mindir"))
    fails(rankmesh.UsageError, "give a model, or config=", Orchestrator)
    with pytest.raises(
        rankmesh.UsageError, match=r"replicas is a setting of one model: write it into serve\.yaml"
    ):
        Orchestrator(config="serve.yaml", replicas=2)
