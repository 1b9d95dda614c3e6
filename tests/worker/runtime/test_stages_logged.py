"""A script that loads a model hears what it is at: the library itself prints nothing."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from rankmesh import Context, Model, ModelType

MLP = Path(__file__).parents[2] / "data" / "mindir" / "mlp" / "mlp.mindir"


def test_stages_of_a_build_are_logged(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    context = Context()
    context.target = ["cpu"]
    with caplog.at_level(logging.INFO, "rankmesh"):
        Model().build_from_file(str(MLP), ModelType.MINDIR, context)
    stages = [
        record.getMessage().rpartition(": ")[2]
        for record in caplog.records
        if record.name == "rankmesh"
    ]
    assert stages == ["READING", "CHECKING", "BUILDING", "READY"]
    assert capfd.readouterr() == ("", "")
