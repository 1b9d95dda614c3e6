from __future__ import annotations

import pytest

from rankmesh.comm.errors import UsageError
from rankmesh.comm.job.environment import deadline_from_environment

pytestmark = pytest.mark.pure


@pytest.mark.parametrize("text, seconds", [(None, 60.0), ("0", 0.0), ("1.5", 1.5), ("1e3", 1000.0)])
def test_seconds(monkeypatch: pytest.MonkeyPatch, text: str | None, seconds: float) -> None:
    monkeypatch.delenv("RANKMESH_COLLECTIVE_TIMEOUT", raising=False)
    if text is not None:
        monkeypatch.setenv("RANKMESH_COLLECTIVE_TIMEOUT", text)
    assert deadline_from_environment() == seconds


@pytest.mark.parametrize("text", ["", "-1", "soon", "nan", "inf", "1e10"])
def test_no_seconds(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("RANKMESH_COLLECTIVE_TIMEOUT", text)
    with pytest.raises(
        UsageError, match="RANKMESH_COLLECTIVE_TIMEOUT is .*, expected seconds from 0"
    ):
        deadline_from_environment()
