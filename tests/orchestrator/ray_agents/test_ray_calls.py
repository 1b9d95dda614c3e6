"""Ray calls with a deadline."""

from __future__ import annotations

import threading

import pytest

from rankmesh.comm.errors import RankmeshError
from rankmesh.orchestrator.ray_agents.ray_calls import within

pytestmark = pytest.mark.pure


def test_what_a_call_returns_or_raises_comes_back() -> None:
    assert within(10, "add", lambda: 1 + 1) == 2
    with pytest.raises(ZeroDivisionError):
        within(10, "divide", lambda: 1 // 0)


def test_a_call_that_takes_too_long_is_named() -> None:
    let_go = threading.Event()
    with pytest.raises(RankmeshError, match=r"Ray did not place ranks within 0\.01 s"):
        within(0.01, "place ranks", let_go.wait)
    let_go.set()
