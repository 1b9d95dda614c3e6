"""Changed plan.json, weights.json and offers of models: refused in one sentence, or as they say."""

from __future__ import annotations

from pathlib import Path

import pytest
from file_fuzz import READERS, taken

pytestmark = pytest.mark.pure
_FILES = 700


@pytest.mark.parametrize("name", READERS)
def test_changed_files_are_refused_or_taken(name: str, tmp_path: Path) -> None:
    assert 0 < taken(name, "suite", _FILES, tmp_path) < _FILES
