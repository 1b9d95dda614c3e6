"""PYTHONPATH of ranks, where the server was started by `opentelemetry-instrument`."""

from __future__ import annotations

import pytest

from rankmesh.comm.processes.uninstrumented import uninstrumented

pytestmark = pytest.mark.pure
FOLDER = "/lib/opentelemetry/instrumentation/auto_instrumentation"


def test_only_the_folder_of_the_instrumentation_leaves_the_path() -> None:
    for given in (f"{FOLDER}:/mine:/lib", f"/mine:{FOLDER}/:/lib"):
        assert uninstrumented({"PYTHONPATH": given}) == {"PYTHONPATH": "/mine:/lib"}
    assert uninstrumented({"PYTHONPATH": FOLDER}) == {"PYTHONPATH": ""}


def test_other_environments_stay_as_they_are() -> None:
    assert uninstrumented({}) == uninstrumented({"PYTHONPATH": "/mine:"}) == {}
