"""Agents with valid keys that lie: requests end once, on hosts whose agents are honest."""

from __future__ import annotations

import pytest
from lying_agents import lied_to

pytestmark = pytest.mark.pure


@pytest.mark.parametrize("seed", range(3))
def test_no_lie_of_an_agent_stops_the_orchestrator(seed: int) -> None:
    outcomes, lies = lied_to(seed, 100, often=0.3)
    assert outcomes.done and not outcomes.twice, outcomes
    assert outcomes.answered and lies > 3
