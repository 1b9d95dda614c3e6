"""Settings of launchers and agents: from calls and files, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rankmesh import UsageError
from rankmesh.orchestrator.config.agent_settings import AgentSettings
from rankmesh.orchestrator.config.call_settings import agents_of

pytestmark = pytest.mark.pure

LISTEN = "10.0.0.1:29500"


def test_without_a_launcher_ranks_are_children_of_the_orchestrator() -> None:
    assert agents_of(None, {}) is None
    assert agents_of(None, {"launcher": "local"}) is None


def test_a_call_names_agents() -> None:
    given = {
        "launcher": "agents",
        "listen": LISTEN,
        "agents": 2,
        "trusted_networks": ["10.0.0.0/24"],
    }
    assert agents_of(None, given) == AgentSettings(LISTEN, 2, trusted_networks=("10.0.0.0/24",))


def test_a_file_names_agents_and_a_call_comes_before_it(tmp_path: Path) -> None:
    file = tmp_path / "serve.yaml"
    file.write_text(
        f"launcher: agents\nlisten: {LISTEN}\nkey_file: keys/a\nagents: 2\n"
        "models:\n- path: a.onnx\n"
    )
    key_file = str(tmp_path / "keys/a")
    assert agents_of(str(file), {}) == AgentSettings(LISTEN, 2, key_file)
    assert agents_of(str(file), {"agents": 3}) == AgentSettings(LISTEN, 3, key_file)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"launcher": "mpi"}, "launcher: got 'mpi', expected local or agents or ray."),
        ({"launcher": "agents"}, "listen: is missing"),
        ({"listen": LISTEN}, "listen: is a setting of launcher: agents"),
        ({"launcher": "agents", "listen": "29500"}, "listen: got '29500', expected an address"),
        ({"launcher": "agents", "listen": "a:0"}, "listen: got 'a:0', expected an address"),
        ({"launcher": "agents", "listen": LISTEN, "agents": 0}, "agents: got 0, expected"),
        ({"launcher": "agents", "listen": LISTEN, "host_timeout": 0.0}, "host_timeout: got 0.0"),
        (
            {"launcher": "agents", "listen": LISTEN, "trusted_networks": ["10.0.0.1/24"]},
            "trusted_networks: got '10.0.0.1/24': 10.0.0.1/24 has host bits set",
        ),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as error:
        agents_of(None, given)
    assert str(error.value).startswith(said)


def test_an_unknown_argument_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'rank'"):
        agents_of(None, {"rank": 2})


@pytest.mark.parametrize(
    ("address", "clear"),
    [
        ("127.0.1.1", True),
        ("10.0.0.1", True),
        ("10.0.0.2", False),
        ("10.0.7.9", True),
        ("10.0.8.1", False),
        ("", False),
    ],
)
def test_tensors_go_in_clear_within_the_host_and_on_declared_networks(
    address: str, clear: bool
) -> None:
    assert AgentSettings(LISTEN, trusted_networks=("10.0.7.0/24",)).trusts(address) is clear
