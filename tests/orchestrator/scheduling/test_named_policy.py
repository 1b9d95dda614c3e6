"""A scheduling policy of the program's own, by its name in a settings file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from moody import paused
from processes import PATIENCE, wait_until
from served_models import echo

from rankmesh import ModelSettings, Orchestrator
from rankmesh.orchestrator.requests.queue import RequestQueue
from rankmesh.orchestrator.scheduling import policies


@pytest.fixture
def last_in(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a policy that runs the request that came last."""
    monkeypatch.setattr(policies, "POLICIES", dict(policies.POLICIES))

    @policies.scheduling_policy("last-in")
    class LastIn(policies.SchedulingPolicy):
        immediate = True

        def __init__(self, settings: ModelSettings) -> None:
            pass

        def take(self, queue: RequestQueue, now: float) -> policies.TakenBatch:
            waiting = list(queue)[-1:]
            for one in waiting:
                queue.remove(one)
            return policies.TakenBatch(waiting, None, [])

    return "last-in"


def test_a_model_of_a_settings_file_runs_under_a_policy_of_the_program(
    last_in: str, tmp_path: Path
) -> None:
    settings = tmp_path / "serve.yaml"
    settings.write_text(f"models:\n  - path: {echo(tmp_path, 4)}\n    policy: {last_in}\n")
    array = np.ones(4, np.float32)
    with Orchestrator(config=str(settings)) as orchestrator:
        with paused(orchestrator, 0):
            futures = [orchestrator.submit(array) for _ in range(6)]
            order = list[int]()
            for number, future in enumerate(futures):
                future.add_done_callback(lambda _, number=number: order.append(number))
        for future in futures:
            np.testing.assert_array_equal(future.result(PATIENCE)["y"], array)
        wait_until(lambda: len(order) == 6, "all callbacks")
    assert order[-1] < 5, "the last to come did not wait for all others"
