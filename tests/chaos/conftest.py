"""How long the chaos lasts, and which: `pytest tests/chaos --chaos-seconds 3600 --chaos-seed 7`."""

from __future__ import annotations

import random

import pytest
from processes import PATIENCE

_SECONDS = 10.0
_SLACK = 6 * PATIENCE
"""Seconds for the waits of a test, each of which has PATIENCE."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--chaos-seconds",
        type=float,
        default=_SECONDS,
        help="how long each test of tests/chaos lasts",
    )
    parser.addoption(
        "--chaos-seed", type=int, default=None, help="repeats what a run with this seed did"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if "chaos" in item.path.parts:
            item.add_marker(
                pytest.mark.timeout(config.getoption("--chaos-seconds", _SECONDS) + _SLACK)
            )


@pytest.fixture
def seconds(request: pytest.FixtureRequest) -> float:
    return float(request.config.getoption("--chaos-seconds", _SECONDS))


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    given = request.config.getoption("--chaos-seed", None)
    chosen = random.SystemRandom().randrange(1_000_000) if given is None else int(given)
    print(f"--chaos-seed {chosen}")  # shown when the test fails
    return chosen
