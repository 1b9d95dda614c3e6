"""Models at run time: loaded, unloaded and replaced while requests run."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from leftovers import nothing_left
from moody import FOR_EVER, inputs, moody, wait_running
from onnx import save
from onnx_models import model, node
from processes import PATIENCE, wait_until
from served_models import doubler, weighed

import rankmesh
from rankmesh import Closed, ModelError, Orchestrator, UsageError
from rankmesh.orchestrator.requests.loaded_versions import LoadedVersions

X = np.arange(4, dtype=np.float32)


def times(folder: Path, factor: float, name: str = "times") -> str:
    """y = factor * x."""
    path = folder / f"{name}{factor:g}.onnx"
    factors = {"factor": np.full(1, factor, np.float32)}
    save(
        model([node("Mul", "x factor", "y")], {"x": [4]}, {"y": [4]}, constants=factors), str(path)
    )
    return str(path)


class Callers:
    """Threads that ask a model all the time, and what they got."""

    def __init__(self, orchestrator: Orchestrator, name: str) -> None:
        self.answers: Counter[float] = Counter()
        self.errors: list[Exception] = []
        self._orchestrator, self._name = orchestrator, name
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(3)]

    def _ask(self) -> None:
        while not self._end.wait(0.002):
            try:
                found = self._orchestrator.predict(X, model=self._name)["y"]
            except Exception as error:
                self.errors.append(error)
            else:
                self.answers[float(found[3]) / 3] += 1

    def __enter__(self) -> Callers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()


@contextmanager
def orchestrator_of(folder: Path, *factors: float) -> Iterator[Orchestrator]:
    """An orchestrator of models `times2` and so on."""
    config = folder / "serve.yaml"
    models = "".join(f"  - path: {times(folder, one)}\n" for one in factors)
    config.write_text(f"models:\n{models}")
    with Orchestrator(config=str(config)) as made:
        yield made


def test_one_of_two_models_is_unloaded_and_loaded_while_the_other_answers(tmp_path: Path) -> None:
    with orchestrator_of(tmp_path, 2, 3) as orchestrator, Callers(orchestrator, "times3") as others:
        orchestrator.predict(X, model="times2")
        assert orchestrator.unload("times2")
        assert orchestrator.models() == ("times3",)
        with pytest.raises(UsageError, match="no model 'times2': name one of times3"):
            orchestrator.predict(X, model="times2")
        np.testing.assert_array_equal(orchestrator.predict(X)["y"], 3 * X)
        assert orchestrator.status().state == "ready"
        assert orchestrator.load(tmp_path / "times2.onnx") == 2
        np.testing.assert_array_equal(orchestrator.predict(X, model="times2")["y"], 2 * X)
        assert set(orchestrator.metrics()) == {"times2", "times3"}
    assert (others.errors, set(others.answers)) == ([], {3.0})


def test_a_version_takes_the_place_of_another_and_gives_it_back(tmp_path: Path) -> None:
    with orchestrator_of(tmp_path, 2) as orchestrator, Callers(orchestrator, "times2") as callers:
        assert orchestrator.load(times(tmp_path, 5), name="times2", switch=False) == 2
        assert orchestrator.versions() == {"times2": LoadedVersions(1, (1, 2))}
        np.testing.assert_array_equal(orchestrator.predict(X)["y"], 2 * X)
        np.testing.assert_array_equal(orchestrator.predict(X, version=2)["y"], 5 * X)
        orchestrator.switch("times2", 2)
        np.testing.assert_array_equal(orchestrator.predict(X)["y"], 5 * X)
        orchestrator.switch("times2", 1)
        assert orchestrator.unload("times2", 2)
        with pytest.raises(UsageError, match="has no version 2: name one of 1"):
            orchestrator.predict(X, version=2)
        assert orchestrator.load(times(tmp_path, 7), name="times2") == 3
        assert orchestrator.unload("times2", 1)
        assert [one.version for one in orchestrator.status().ranks] == [3]
        np.testing.assert_array_equal(orchestrator.predict(X)["y"], 7 * X)
        assert orchestrator.version_metrics(version=3)["answered"] >= 1
    assert not callers.errors and set(callers.answers) <= {2.0, 5.0, 7.0}


def test_a_load_that_fails_changes_nothing_and_says_why(tmp_path: Path) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    with orchestrator_of(tmp_path, 2) as orchestrator:
        with nothing_left():
            with pytest.raises(ModelError, match=r"broken\.onnx"):
                orchestrator.load(broken, name="times2")
            with pytest.raises(ModelError, match=r"nowhere\.onnx"):
                orchestrator.load(tmp_path / "nowhere.onnx", name="times2")
            with pytest.raises(UsageError, match="no setting 'replica', but path"):
                orchestrator.load(broken, replica=2)
        np.testing.assert_array_equal(orchestrator.predict(X)["y"], 2 * X)
        assert orchestrator.versions() == {"times2": LoadedVersions(1, (1,))}
        assert orchestrator.load(times(tmp_path, 3), name="times2") == 2


def test_an_unloaded_model_leaves_nothing(tmp_path: Path) -> None:
    with orchestrator_of(tmp_path, 2) as orchestrator:
        orchestrator.predict(X)
        weights, tensors = orchestrator._fleet.parts.weights, orchestrator._fleet.parts.arena
        before = (weights.used, tensors.used)
        with nothing_left():
            path = weighed(tmp_path, 2)
            orchestrator.load(path, ranks=2, replicas=2)
            orchestrator.predict(np.ones((2, 16), np.float32), model="weighed")
            new = {"straight": np.full((16, 256), 2, np.float32)}
            orchestrator.update_weights(new, model="weighed")
            orchestrator.load(path, ranks=2, name="weighed")
            assert orchestrator.unload("weighed")
            assert (weights.used, tensors.used) == before


def test_requests_under_way_are_answered_or_told(tmp_path: Path) -> None:
    with Orchestrator(doubler(tmp_path)) as orchestrator:
        orchestrator.load(moody(tmp_path), name="moody")
        slow = orchestrator.submit(inputs(), model="moody")
        assert orchestrator.unload("moody")
        assert slow.done() and "y" in slow.result()
        orchestrator.load(moody(tmp_path), name="moody")
        stuck = orchestrator.submit(inputs(FOR_EVER), model="moody")
        wait_running(orchestrator)
        assert not orchestrator.unload("moody", timeout=0.1)
        with pytest.raises(Closed, match="model 'moody' version 2 was unloaded before"):
            stuck.result()


def test_a_model_whose_ranks_are_dead_or_stopped_is_unloaded_like_any_other(tmp_path: Path) -> None:
    def pid(name: str) -> int:
        (found,) = [one.pid for one in orchestrator.status().ranks if one.model == name]
        assert found is not None
        return found

    with orchestrator_of(tmp_path, 2) as orchestrator, nothing_left():
        for number in (signal.SIGKILL, signal.SIGSTOP):
            orchestrator.load(times(tmp_path, 3))
            os.kill(pid("times3"), number)
            waits = orchestrator.submit(X, model="times3")
            answered = orchestrator.unload("times3", timeout=0)
            assert orchestrator.models() == ("times2",) and not answered
            assert isinstance(waits.exception(), Closed)
        np.testing.assert_array_equal(orchestrator.predict(X)["y"], 2 * X)


def test_the_last_model_may_go_and_a_closed_orchestrator_loads_none(tmp_path: Path) -> None:
    with nothing_left():
        with orchestrator_of(tmp_path, 2) as orchestrator:
            orchestrator.unload("times2")
            with pytest.raises(UsageError, match="no model was named: none is loaded"):
                orchestrator.predict(X)
            orchestrator.load(times(tmp_path, 3))
            np.testing.assert_array_equal(orchestrator.predict(X)["y"], 3 * X)
            orchestrator.drain(1)
            with pytest.raises(rankmesh.Draining, match="loads no more"):
                orchestrator.load(times(tmp_path, 4))
        with pytest.raises(Closed, match="is closed"):
            orchestrator.predict(X)


def test_an_orchestrator_that_is_closed_while_it_loads_ends_the_load(tmp_path: Path) -> None:
    errors: list[Exception] = []

    def load() -> None:
        try:
            orchestrator.load(times(tmp_path, 3))
        except Exception as error:
            errors.append(error)

    with nothing_left():
        with orchestrator_of(tmp_path, 2) as orchestrator:
            loading = threading.Thread(target=load)
            loading.start()
            wait_until(lambda: len(orchestrator.status().ranks) == 2, "the rank to be started")
        loading.join(PATIENCE)
        assert [type(one) for one in errors] == [Closed]
