"""Settings of all tests, and their kinds."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from kinds import GUARD, sort
from pure_coverage import PureCoverage

if TYPE_CHECKING:
    from explorer.exploration import Explored

# how long an example takes says more about what else the machine does than about the code
settings.register_profile(
    "patient", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")
# at the usual 700 new objects, garbage collections take a tenth of the time of slicing
gc.set_threshold(50_000)
COVERAGE = PureCoverage()


def pytest_configure(config: pytest.Config) -> None:
    """Let each process of pytest-xdist begin with another part of the whole suite: they find the
    tests that others have compiled, where all would compile the same ones at the same time.
    """
    tests = Path(__file__).parent
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1))
    if count > 1 and [config.rootpath / one for one in config.args] == [tests]:
        found = {path.relative_to(tests).parts[:2] for path in tests.rglob("test_*.py")}
        parts = [str(tests.joinpath(*part)) for part in sorted(found)]
        first = len(parts) * int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw")) // count
        config.args[:] = parts[first:] + parts[:first]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every test its kind, before `-m` selects by it. Files of pure tests, which are short,
    come last: they keep every process of pytest-xdist busy to the end.
    """
    sort(items)
    long = {item.path for item in items if item.get_closest_marker("pure") is None}
    items.sort(key=lambda item: (item.path not in long, item.path))


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


def pytest_sessionfinish() -> None:
    """Keep what was measured."""
    COVERAGE.save()


@pytest.fixture
def note_explored(record_property: Callable[[str, object], None]) -> Callable[[Explored], None]:
    """Have the end of the run tell how much of the interleavings was explored."""
    return lambda explored: record_property("explored", [explored.states, explored.steps])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell how much was explored."""
    passed = terminalreporter.getreports("passed")
    notes = [dict(report.user_properties).get("explored") for report in passed]
    if counts := [one for one in notes if one]:
        states, steps = map(sum, zip(*counts, strict=True))
        text = f"interleavings: {states} states, {steps} steps in {len(counts)} explorations"
        terminalreporter.line(text)


def _guarded(item: pytest.Item) -> Generator[None, Any, Any]:
    if item.get_closest_marker("pure") is None:
        return (yield)
    with GUARD.pure(), COVERAGE.measured(item.path):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    """Guard the fixtures of pure tests."""
    return (yield from _guarded(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Guard the pure tests."""
    return (yield from _guarded(item))
