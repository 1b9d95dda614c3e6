"""The tests that docs/orchestrator.md names are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.pure

ROOT = Path(__file__).parents[2]


def test_every_pain_is_answered_by_a_test_or_a_sentence() -> None:
    section = (
        (ROOT / "docs" / "orchestrator.md")
        .read_text()
        .partition("## What users suffer elsewhere")[2]
    )
    rows = [line.split(" | ") for line in section.splitlines() if re.match(r"\| \d+ \|", line)]
    assert [int(row[0][2:]) for row in rows] == list(range(1, 16))
    for _, _, answer in rows:
        assert len(answer) > 20
        for path, name in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", answer):
            assert f"def {name}(" in (ROOT / path).read_text(), f"{path} has no {name}"
