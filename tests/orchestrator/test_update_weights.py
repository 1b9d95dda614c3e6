"""Weights that an orchestrator replaces while requests run: all ranks and replicas at once, or
none, and for good.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from changed_weights import other, weights, with_weights
from mindir_models import DATA, fails, file_of, saved
from moody import paused, replicas, strike, wait_ready
from processes import PATIENCE, wait_until
from safetensors.numpy import save_file
from served_models import WEIGHTS, weighed

import rankmesh
from rankmesh import Orchestrator

X = np.ones((2, 16), np.float32)
Shape = tuple[int, int]


@pytest.fixture(scope="module", params=[(1, 2), (2, 1)], ids=["two replicas", "two ranks"])
def shape(request: pytest.FixtureRequest) -> Shape:
    """How many ranks a replica has, and how many replicas there are."""
    found: Shape = request.param
    return found


@pytest.fixture(scope="module")
def served(shape: Shape, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orchestrator]:
    pattern = weighed(tmp_path_factory.mktemp("weighed"), shape[0])
    with Orchestrator(pattern, replicas=shape[1], threads=1, hang_timeout=2.0) as orchestrator:
        yield orchestrator


@pytest.fixture(autouse=True)
def serving(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test ends with ranks that answer by one version, which is the one that status and
    metrics show.
    """
    yield
    if "served" in request.fixturenames:
        served = request.getfixturevalue("served")
        wait_ready(served)
        assert len({value(served) for _ in range(6)}) == 1
        (metrics,) = served.metrics().values()
        assert {one.weights_version for one in served.status().ranks} == {
            metrics["weights_version"]
        }


def all_of(number: float) -> dict[str, np.ndarray]:
    return {name: np.full(shape, number, np.float32) for name, shape in WEIGHTS.items()}


def value(served: Orchestrator) -> float:
    """What all weights are, by one request."""
    return value_of(served.predict(X), served)


def value_of(answer: dict[str, Any], served: Orchestrator) -> float:
    """What all weights were for an answer; fails unless they were equal, on all ranks."""
    ranks = 1 + max(one.rank for one in served.status().ranks)
    found = {
        float(one)
        for name, times in (("y", 17), ("z", 16))
        for one in np.unique(answer[name] / (times * ranks))
    }
    assert len(found) == 1, f"an answer of several versions: {found}"
    return found.pop()


def version(served: Orchestrator) -> int:
    found: int = next(iter(served.metrics().values()))["weights_version"]
    return found


def test_every_answer_is_of_one_version_and_none_of_an_older_than_the_last_update(
    served: Orchestrator,
):
    """Values are powers of two: no mean of two of them, which ranks of different versions would
    give, is a third.
    """
    done, started, stop = 0, 0, threading.Event()
    wrong: list[str] = []
    seen: set[int] = set()

    def client() -> None:
        while not stop.is_set():
            least = done
            power = np.log2(value(served))
            seen.add(int(power))
            if power != int(power) or not least <= power <= started:
                wrong.append(f"2 ** {power} between the updates {least} and {started}")

    served.update_weights(all_of(1))
    threads = [threading.Thread(target=client) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for power in range(1, 9):
            started = power
            assert served.update_weights(all_of(2.0**power)) == version(served)
            done = power
            wait_until(lambda power=power: power in seen, "clients to use it")  # type: ignore[misc]
    finally:
        stop.set()
        for thread in threads:
            thread.join(PATIENCE)
    assert not wrong and not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize(
    ("name", "array", "text"),
    [
        ("bias", np.ones(255, np.float32), "the weight 'bias' of"),
        ("bias", np.ones(256), "is float32, got float64"),
        ("bais", np.ones(256, np.float32), "has no weight 'bais'"),
        ("bais", np.ones(256, np.float32), "near: bias"),
    ],
    ids=["shape", "dtype", "name", "near"],
)
def test_one_tensor_that_does_not_fit_changes_nothing(
    served: Orchestrator, name: str, array: np.ndarray, text: str
):
    served.update_weights(all_of(3))
    before = version(served)
    fails(rankmesh.InputError, text, served.update_weights, {**all_of(7), name: array})
    fails(rankmesh.InputError, "got no tensors", served.update_weights, {})
    assert value(served) == 3 and version(served) == before


def test_rollback_goes_back_once(served: Orchestrator):
    first = served.update_weights(all_of(4))
    assert served.update_weights(all_of(5)) == first + 1
    assert served.rollback() == first and value(served) == 4
    fails(rankmesh.UsageError, "no version of the weights to go back to", served.rollback)
    assert (
        served.update_weights({"bias": np.full(256, 4, np.float32)}) == first + 1
        and value(served) == 4
    )


def test_deltas_are_added_to_the_weights_as_exported(served: Orchestrator):
    for delta in (4, 5):
        served.update_weights(all_of(delta), delta=True)
        assert value(served) == 1 + delta


def test_who_is_killed_comes_back_with_the_weights_as_they_are_now(served: Orchestrator):
    served.update_weights(all_of(6))
    with paused(served, 1):
        futures = [served.submit(X) for _ in range(6)]
        strike(served, 1)
    assert {value_of(future.result(PATIENCE), served) for future in futures} == {6}


def test_an_update_while_ranks_restart_is_theirs_too(served: Orchestrator):
    served.update_weights(all_of(8))
    strike(served, 0)
    served.update_weights(all_of(9))
    assert {value(served) for _ in range(8)} == {9}


@pytest.mark.parametrize("shape", [(2, 1)], indirect=True, ids=["two ranks"])
def test_a_rank_that_is_stopped_delays_an_update_until_it_is_replaced(served: Orchestrator):
    pid = strike(served, 1, signal.SIGSTOP)
    served.update_weights(all_of(10))
    assert value(served) == 10
    status = served.status().ranks[1]
    assert status.pid != pid and "is stopped by a signal" in status.last_error


def test_no_more_than_two_copies_lie_in_memory(served: Orchestrator, shape: Shape):
    one = sum(np.prod(of) * 4 for of in WEIGHTS.values())
    served.update_weights(all_of(1))
    with pytest.raises(rankmesh.InputError) as kept:
        served.update_weights({"bias": np.ones(1)})
    for number in range(4):
        served.update_weights(all_of(number))
        per_rank = served.update_weights([all_of(number) for _ in range(shape[0])])
        assert per_rank == version(served)
    taken = os.fstat(served._fleet.parts.weights.fd).st_blocks * 512
    assert kept and taken <= 2 * one * shape[0] + 4096 * 2 * len(WEIGHTS) * shape[0]


@pytest.mark.parametrize("kind", ["npz", "safetensors"])
def test_each_rank_takes_its_own_file(
    served: Orchestrator, shape: Shape, tmp_path: Path, kind: str
):
    save: Callable[..., None] = (
        np.savez if kind == "npz" else lambda path, **arrays: save_file(arrays, path)
    )
    for rank in range(shape[0]):
        save(str(tmp_path / f"new{rank}.{kind}"), **all_of(11))
    save(str(tmp_path / f"all.{kind}"), **all_of(12))
    served.update_weights(str(tmp_path / f"new{{rank}}.{kind}"))
    assert value(served) == 11
    served.update_weights(tmp_path / f"all.{kind}")
    assert value(served) == 12
    served.update_weights(tmp_path / f"all.{kind}", delta=True)
    assert value(served) == 13
    (tmp_path / f"new0.{kind}").write_bytes(b"broken")
    fails(
        rankmesh.InputError, f"new0.{kind}", served.update_weights, str(tmp_path / f"new0.{kind}")
    )
    fails(
        rankmesh.InputError, "no such file", served.update_weights, str(tmp_path / f"none.{kind}")
    )
    assert value(served) == 13


def test_ranks_of_different_shards_take_what_they_have(tmp_path: Path):
    """A pipeline: all weights at once, each rank those of its stage; a request in any stage sees
    one version.
    """
    name = "dist_pipeline_2"
    (x,), (exported,) = saved(name)
    paths = [str(DATA / name / f"{name}_rank{rank}.mindir") for rank in range(2)]
    own = [other(weights(path)) for path in paths]
    changed = ""
    for rank, path in enumerate(paths):
        (tmp_path / str(rank)).mkdir()
        changed = with_weights(path, own[rank], tmp_path / str(rank))
        os.rename(changed, tmp_path / os.path.basename(path))
    pattern = str(tmp_path / f"{name}_rank{{rank}}.mindir")
    with Orchestrator(pattern) as orchestrator:
        (wanted,) = orchestrator.predict(x).values()
    assert not np.allclose(wanted, exported, 1e-4, 1e-4)
    with Orchestrator(str(DATA / name / f"{name}_rank{{rank}}.mindir")) as orchestrator:
        futures = [orchestrator.submit(x) for _ in range(20)]
        orchestrator.update_weights({**own[0], **own[1]})
        later = [orchestrator.submit(x) for _ in range(4)]
        for future in futures:
            (answer,) = future.result(PATIENCE).values()
            assert any(np.allclose(answer, one, 1e-4, 1e-4) for one in (exported, wanted))
        for future in later:
            np.testing.assert_allclose(
                next(iter(future.result(PATIENCE).values())), wanted, 1e-4, 1e-4
            )
        orchestrator.rollback()
        np.testing.assert_allclose(
            next(iter(orchestrator.predict(x).values())), exported, 1e-4, 1e-4
        )
        orchestrator.update_weights(pattern)
        np.testing.assert_allclose(next(iter(orchestrator.predict(x).values())), wanted, 1e-4, 1e-4)


def test_folded_and_fused_weights_are_never_stale(tmp_path: Path):
    """Convolutions and transposed Dense layers, from another MindIR of the same model."""
    path = file_of("lenet5")
    inputs, exported = saved("lenet5")
    changed = with_weights(path, other(weights(path)), tmp_path)
    with Orchestrator(changed) as orchestrator:
        wanted = list(orchestrator.predict(*inputs).values())
    with Orchestrator(path) as orchestrator:
        orchestrator.update_weights(changed)
        for found, one in zip(orchestrator.predict(*inputs).values(), wanted, strict=True):
            np.testing.assert_allclose(found, one, 1e-4, 1e-5)
        strike(orchestrator, 0)
        orchestrator.update_weights(path)
        for found, one in zip(orchestrator.predict(*inputs).values(), exported, strict=True):
            np.testing.assert_allclose(found, one, 1e-4, 1e-4)


def test_what_requests_leave_for_later_ones_outlasts_an_update():
    path = file_of("state_counter")
    with Orchestrator(path) as orchestrator:
        for request in ("", "_2"):
            with np.load(Path(path).with_name(f"state_counter{request}.npz")) as arrays:
                found = orchestrator.predict(arrays["in_0"])
                for number, one in enumerate(found.values()):
                    np.testing.assert_allclose(one, arrays[f"out_{number}"], 1e-5, 1e-6)
            orchestrator.update_weights({"w": weights(path)["w"]})
        fails(
            rankmesh.InputError,
            "the model itself assigns to it",
            orchestrator.update_weights,
            {"n": weights(path)["n"]},
        )


def test_files_of_the_model_that_have_changed_are_not_mixed_with_new_weights(tmp_path: Path):
    pattern = weighed(tmp_path)
    with Orchestrator(pattern) as orchestrator:
        place = tmp_path / "weighed0.onnx"
        os.utime(place, ns=(time.time_ns(), time.time_ns() + 10**9))
        fails(rankmesh.ModelError, "files have changed", orchestrator.update_weights, all_of(2))
        assert value(orchestrator) == 1


def test_an_orchestrator_that_closes_ends_an_update(tmp_path: Path):
    orchestrator = Orchestrator(weighed(tmp_path))
    caught: list[Exception] = []

    def update() -> None:
        try:
            orchestrator.update_weights(all_of(2))
        except Exception as error:
            caught.append(error)

    with paused(orchestrator, 0):
        thread = threading.Thread(target=update)
        thread.start()
        wait_until(
            lambda: replicas(orchestrator)[0].incarnation._rounds._rounds,
            "the rank to be asked",
        )
        orchestrator.close()
    thread.join(PATIENCE)
    assert not thread.is_alive() and isinstance(caught[0], rankmesh.Closed)
    fails(rankmesh.Closed, "closed", orchestrator.update_weights, all_of(2))
