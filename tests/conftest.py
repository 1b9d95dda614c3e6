"""Settings of all tests, and their kinds."""

from __future__ import annotations

import gc
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from kinds import GUARD, sort

# how long an example takes says more about what else the machine does than about the code
settings.register_profile(
    "patient", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")
# at the usual 700 new objects, garbage collections take a tenth of the time of slicing
gc.set_threshold(50_000)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every test its kind, before `-m` selects by it."""
    sort(items)


def pytest_collection_finish() -> None:
    """Keep what is there by now out of garbage collections: each takes a quarter of a
    second otherwise, and tests for leaks ask for many.
    """
    gc.collect()
    gc.freeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """For `-m pure` and the like, leave out files without such a test: importing them takes most of
    the time.
    """
    mark = config.option.markexpr
    if mark in ("pure", "alone", "mpi") and collection_path.match("test_*.py"):
        return f"mark.{mark}" not in collection_path.read_text() or None
    return None


def _guarded(item: pytest.Item) -> Generator[None, Any, Any]:
    if item.get_closest_marker("pure") is None:
        return (yield)
    with GUARD.pure():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    """Guard the fixtures of pure tests."""
    return (yield from _guarded(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Guard the pure tests."""
    return (yield from _guarded(item))
