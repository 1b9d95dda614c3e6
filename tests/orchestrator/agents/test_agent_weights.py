"""Weights of ranks on other hosts: new ones are sent there once, and are in effect for all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from agents import Agents
from moody import wait_ready
from served_models import WEIGHTS, weighed

from rankmesh import InputError, Orchestrator

X = np.ones((2, 16), np.float32)
RANKS = 2


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agents]:
    """Two agents, each with room for the ranks of a replica."""
    with Agents(tmp_path_factory.mktemp("agents")) as agents:
        agents.start("a", RANKS)
        agents.start("b", RANKS)
        yield agents


@pytest.fixture(scope="module")
def served(agents: Agents, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orchestrator]:
    """Two replicas, each on another agent."""
    pattern = weighed(tmp_path_factory.mktemp("weighed"), RANKS)
    with Orchestrator(pattern, replicas=2, threads=1, **agents.settings) as orchestrator:  # type: ignore[arg-type]
        yield orchestrator


def all_of(number: float) -> dict[str, np.ndarray]:
    return {name: np.full(shape, number, np.float32) for name, shape in WEIGHTS.items()}


def values(served: Orchestrator) -> set[float]:
    """What all weights are, by requests to all replicas."""
    answers = [future.result() for future in [served.submit(X) for _ in range(6)]]
    return {float(one) for answer in answers for one in np.unique(answer["y"]) / (17 * RANKS)}


def held(agents: Agents, name: str) -> int:
    """Bytes of the nameless files of tensors that an agent has."""
    folder = f"/proc/{agents.started[name].pid}/fd"
    paths = [os.path.join(folder, one) for one in os.listdir(folder)]
    return 512 * sum(os.stat(one).st_blocks for one in paths if "tensors" in os.readlink(one))


def test_new_weights_are_in_effect_on_all_hosts(served: Orchestrator) -> None:
    assert values(served) == {1}
    served.update_weights(all_of(3))
    assert values(served) == {3}
    served.update_weights([all_of(5) for _ in range(RANKS)])
    assert values(served) == {5}
    served.update_weights(all_of(6), delta=True)  # added to the exported ones
    assert values(served) == {7}
    served.rollback()
    assert values(served) == {5}


def test_a_file_of_weights_is_read_by_one_replica_for_all(
    served: Orchestrator, tmp_path: Path
) -> None:
    np.savez(tmp_path / "new.npz", **all_of(9))  # type: ignore[arg-type]
    served.update_weights(tmp_path / "new.npz")
    assert values(served) == {9}
    served.update_weights(tmp_path / "new.npz", delta=True)
    assert values(served) == {10}
    with pytest.raises(InputError, match="absent.npz"):
        served.update_weights(tmp_path / "absent.npz")
    assert values(served) == {10}


def test_a_rank_that_starts_again_has_the_weights_in_effect(
    served: Orchestrator, agents: Agents
) -> None:
    served.update_weights(all_of(11))
    agents.ranks("b")[0].kill()
    agents.started["a"].kill()
    agents.started["a"].communicate()
    agents.start("a", RANKS)
    wait_ready(served)
    assert values(served) == {11}


def test_no_more_copies_lie_on_a_host_than_here(served: Orchestrator, agents: Agents) -> None:
    served.update_weights(all_of(1))
    served.update_weights(all_of(2))
    before = held(agents, "b")
    for number in range(4):
        served.update_weights(all_of(number))
    assert values(served) == {3} and held(agents, "b") <= before
