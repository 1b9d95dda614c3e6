"""Ranks that write nonsense wherever they share memory with their orchestrator, while requests
run."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from random import Random

import numpy as np
import pytest
from chaos import Ledger, let_loose
from leftovers import nothing_left
from moody import expected, inputs, moody
from processes import PATIENCE, wait_until
from served_models import doubler, grower

from rankmesh import Orchestrator, RankmeshError

pytestmark = pytest.mark.alone  # counts the requests that are answered in its time

IN_RANKS = Path(__file__).parents[1] / "support" / "in_ranks"
SETTINGS = """
models:
  - path: {doubler}
    name: doubler
    replicas: 2
    timeout: 20
    hang_timeout: 1.5
    restart_budget: 1000000
  - path: {grower}
    name: grower
    timeout: 20
    hang_timeout: 1.5
    restart_budget: 1000000
  - path: {moody}
    name: moody
    ranks: 2
    timeout: 20
    hang_timeout: 1.5
    restart_budget: 1000000
"""
MODELS = ("doubler", "grower", "moody")
DEADLINE, SLACK = 20.0, 60.0


def ask(model: str, rng: Random, orchestrator: Orchestrator, ledger: Ledger) -> None:
    """One request, whose answer no other request has; it ends in time, rightly or with an error of
    ours.
    """
    start, size = rng.randrange(1 << 20), 4 * rng.randrange(1, 2000)
    given = {"x": np.arange(start, start + size, dtype=np.float32)}
    wanted = given["x"] * np.float32(4)
    if model == "doubler":
        x = given["x"].reshape(-1, 4)
        given, wanted = {"x": x, "bias": np.full(1, start, np.float32)}, x + x + np.float32(start)
    elif model == "grower":
        given, wanted = {"n": np.array([size * 9])}, np.ones(size * 9, np.float32)
    else:
        given = inputs(0, size, start=start)
        wanted = expected(given, 2)
    began = time.monotonic()
    try:
        found = orchestrator.predict(given, model=model)["y"]
    except RankmeshError as error:
        ledger.count(type(error).__name__)
    else:
        ledger.count("answered")
        if not np.array_equal(found, wanted):
            ledger.complain(
                f"{model} gave a wrong answer of shape {found.shape}, expected {wanted.shape}"
            )
    if time.monotonic() - began > DEADLINE + SLACK:
        ledger.complain(f"a request of {model} took {time.monotonic() - began:.1f} s")


def look(rng: Random, orchestrator: Orchestrator, ledger: Ledger) -> None:
    orchestrator.status().to_dict()
    time.sleep(rng.random() * 0.1)


def answers(orchestrator: Orchestrator, model: str) -> bool:
    """Whether a model answers at once; what was written before may still have to be found out."""
    given = {
        "doubler": {"x": np.ones((2, 4), np.float32), "bias": np.ones(1, np.float32)},
        "grower": {"n": np.array([3])},
        "moody": inputs(),
    }[model]
    try:
        return bool(orchestrator.predict(given, model=model, timeout=5)["y"].size)
    except RankmeshError:
        return False


@pytest.mark.slow
def test_ranks_that_write_nonsense_harm_no_request_of_others(
    tmp_path: Path, seconds: float, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fuzzing, ledger = tmp_path / "fuzzing", Ledger()
    monkeypatch.setenv("PYTHONPATH", str(IN_RANKS))
    monkeypatch.setenv("TEST_IN_RANKS", str(IN_RANKS / "fuzzing.py"))
    monkeypatch.setenv("TEST_FUZZ", str(fuzzing))
    file = tmp_path / "serve.yaml"
    file.write_text(
        SETTINGS.format(
            doubler=doubler(tmp_path), grower=grower(tmp_path), moody=moody(tmp_path, 2)
        )
    )
    with nothing_left():
        with Orchestrator(config=str(file)) as orchestrator:
            fuzzing.touch()
            asking = [partial(ask, model) for model in MODELS * 2]  # none waits for another model
            let_loose(orchestrator, ledger, [*asking, look], seconds, seed)
            fuzzing.unlink()
            for model in MODELS:
                wait_until(lambda model=model: answers(orchestrator, model), f"{model} to answer")  # type: ignore[misc]
            restarts = sum(rank.restarts for rank in orchestrator.status().ranks)
            fuzzing.touch()
            began = time.monotonic()
        assert time.monotonic() - began < PATIENCE  # the end of ranks that write nonsense
    print(dict(ledger.counts), f"{restarts} restarts")
    assert not ledger.unexpected, "\n".join(ledger.unexpected[:10])
    assert ledger.counts["answered"] > seconds and restarts
