"""What is free on the hosts of a Ray cluster, as versions of Ray tell it that are still to come."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from rankmesh.orchestrator.ray_agents.ray_cluster import free_resources

pytestmark = pytest.mark.pure

FREE = {"n1": {"CPU": 2.0}}


def refusing(node: str) -> dict[str, dict[str, float]]:
    raise AssertionError(node)


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (lambda: FREE, FREE),
        (None, {}),
        (refusing, {}),
        (lambda: {"n1": 2.0}, {}),
        (lambda: [FREE], {}),
    ],
)
def test_a_call_that_ray_has_changed_tells_of_no_host(
    monkeypatch: pytest.MonkeyPatch, call: Callable[..., Any] | None, found: dict[str, Any]
) -> None:
    names = ("ray", "ray._private", "ray._private.state")
    modules = {name: ModuleType(name) for name in names}
    if call is not None:
        vars(modules[names[-1]])["available_resources_per_node"] = call
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    assert free_resources() == found
