"""The gate: roles of paths and calls, and rates of callers."""

from __future__ import annotations

import pytest

from rankmesh import UsageError
from rankmesh.orchestrator.server.access.gate import AccessSettings, Gate
from rankmesh.orchestrator.server.access.rates import CallerRates, RequestRate
from rankmesh.orchestrator.server.access.roles import AccessRole, role_of_call, role_of_path
from rankmesh.orchestrator.server.faults import TooManyRequests
from rankmesh.orchestrator.server.grpc.protocol import inference
from rankmesh.orchestrator.server.grpc.protocol.descriptors import POOL

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("method", "path", "role"),
    [
        ("GET", "v2/health/live", None),
        ("GET", "v2/health/ready", None),
        ("GET", "metrics", AccessRole.METRICS),
        ("GET", "v2/models/echo", AccessRole.INFER),
        ("POST", "v2/models/echo/infer", AccessRole.INFER),
        ("POST", "v2/models/echo/versions/1/infer", AccessRole.INFER),
        ("POST", "v2/repository/index", AccessRole.INFER),
        ("POST", "v2/systemsharedmemory/region/a/register", AccessRole.INFER),
        ("POST", "v2/repository/models/echo/load", AccessRole.MANAGE),
        ("POST", "v2/models/infer", AccessRole.MANAGE),
        ("POST", "v2/models/echo/trace/setting", AccessRole.MANAGE),
        ("POST", "v2/logging", AccessRole.MANAGE),
        ("DELETE", "v2/models/echo", AccessRole.MANAGE),
        ("POST", "anything", AccessRole.MANAGE),
    ],
)
def test_paths_have_their_roles(method: str, path: str, role: AccessRole | None) -> None:
    assert role_of_path(method, path.split("/")) == role


def test_every_call_of_the_protocol_has_a_role() -> None:
    assert inference.ModelInferRequest
    service = POOL.FindServiceByName("inference.GRPCInferenceService")
    roles = {one.name: role_of_call(one.name) for one in service.methods}
    manage = {"LogSettings", "RepositoryModelLoad", "RepositoryModelUnload", "TraceSetting"}
    assert {name for name, role in roles.items() if role is AccessRole.MANAGE} == manage
    assert {name for name, role in roles.items() if role is None} == {"ServerLive", "ServerReady"}
    assert (role_of_call("Check"), role_of_call("Watch")) == (None, AccessRole.INFER)


def test_a_burst_and_then_so_many_a_second() -> None:
    now = 100.0
    rates = CallerRates(lambda: now)
    allowed = RequestRate(2.0, 3.0)
    assert [rates.take("a", allowed) for _ in range(4)] == [0, 0, 0, 0.5]
    assert rates.take("b", allowed) == 0
    now += 0.5
    assert [rates.take("a", allowed) for _ in range(2)] == [0, 0.5]
    now += 1000
    assert [rates.take("a", allowed) for _ in range(4)] == [0, 0, 0, 0.5]


def test_addresses_have_the_default_rate_where_there_are_no_tokens() -> None:
    assert Gate.wanted(AccessSettings()) is None
    gate = Gate.wanted(AccessSettings(rate=0.5))
    assert gate is not None and gate.admit(AccessRole.MANAGE, "") is None
    gate.count(None, "::1")
    with pytest.raises(TooManyRequests) as raised:
        gate.count(None, "::1")
    assert raised.value.seconds == 2
    gate.count(None, "::2")
    with pytest.raises(UsageError, match="--rate"):
        Gate.wanted(AccessSettings(burst=2))
