"""The public surface: everything that tests/data/api.json records is still there, unchanged."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from api import RECORD, ROOT, differences

RECORDED: dict[str, Any] = json.loads(RECORD.read_text())


@pytest.fixture(scope="module")
def today() -> dict[str, Any]:
    """The surface of today, from a process in which no test has imported anything."""
    command = [sys.executable, str(ROOT / "tests" / "support" / "api.py")]
    found: dict[str, Any] = json.loads(
        subprocess.run(command, capture_output=True, check=True, timeout=250).stdout
    )
    return found


@pytest.mark.parametrize("part", sorted(RECORDED))
def test_public_surface_is_what_was_recorded(part: str, today: dict[str, Any]) -> None:
    if part == "torch" and not today[part]:
        pytest.skip("torch is not installed")
    lines = list(differences(RECORDED[part], today[part], part))
    assert not lines, "\n".join(
        [*lines, "Keep what users hold on to: an alias with a DeprecationWarning will do."]
    )


@pytest.mark.parametrize(
    ("recorded", "today", "said"),
    [
        ({"a": "1"}, {"a": "1", "b": "2"}, []),
        ({"a": {"b": "1"}}, {"a": {}}, ["a.b is gone"]),
        ({"a": "1"}, {"a": "2"}, ["a: was '1', is '2'"]),
        (["X", "Y"], ["Y", "Z"], [": X is gone"]),
    ],
)
def test_removals_and_changes_are_differences_and_additions_are_none(
    recorded: Any, today: Any, said: list[str]
) -> None:
    assert list(differences(recorded, today)) == said


@pytest.mark.parametrize(
    ("today", "same"),
    [
        (["a", "b = 1", "c (keyword) = 2"], True),
        (["a", "b = 1", "d (keyword) = 0", "c (keyword) = 2", "**more"], True),
        (["a", "b = 1", "d = 0", "c (keyword) = 2"], True),
        (["a", "d = 0", "b = 1", "c (keyword) = 2"], False),
        (["a", "b = 3", "c (keyword) = 2"], False),
        (["a", "c (keyword) = 2"], False),
        (["a", "b = 1", "c (keyword) = 2", "e (keyword)"], False),
    ],
)
def test_calls_that_were_right_must_stay_right(today: list[str], same: bool) -> None:
    recorded = {"signature": ["a", "b = 1", "c (keyword) = 2"]}
    assert (not list(differences(recorded, {"signature": today}, "f"))) == same
