"""Options of `rankmesh serve`."""

from __future__ import annotations

import inspect
from dataclasses import fields

import pytest

from rankmesh.launch.commands.serve import serve
from rankmesh.orchestrator.server.frontend.settings import ServerSettings
from rankmesh.orchestrator.server.http.limits import HttpLimits

pytestmark = pytest.mark.pure


@pytest.mark.parametrize("settings", [HttpLimits, ServerSettings])
def test_options_have_the_defaults_of_the_settings(
    settings: type[HttpLimits | ServerSettings],
) -> None:
    options = inspect.signature(serve).parameters
    shared = [one for one in fields(settings) if one.name in options]
    assert len(shared) >= 5
    for one in shared:
        assert options[one.name].default == one.default, one.name
