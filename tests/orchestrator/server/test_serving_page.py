"""The commands of docs/serving.md, against the server that it starts."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from served_http import ServerProcess, serving
from served_models import SAMPLE, weighed

PAGE = (Path(__file__).parents[3] / "docs" / "serving.md").read_text()
COMMANDS, MANAGEMENT = (
    re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", console, re.MULTILINE)
    for console in re.findall(r"^```console\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
)


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with serving(SAMPLE) as made:
        yield made


def test_the_commands_of_management_print_what_the_page_shows(tmp_path: Path) -> None:
    weights = tmp_path / "weights"
    weights.mkdir()
    save_file({"bias": np.ones(256, np.float32)}, weights / "epoch7.safetensors")
    config = tmp_path / "serve.yaml"
    config.write_text(f"models:\n  - {{path: '{weighed(tmp_path)}', name: bert}}\n")
    with serving(config, "--management", "--weights-folder", str(weights)) as server:
        for command, shown in MANAGEMENT:
            test_a_command_prints_what_the_page_shows(server, command, shown)


@pytest.mark.parametrize(("command", "shown"), COMMANDS)
def test_a_command_prints_what_the_page_shows(
    server: ServerProcess, command: str, shown: str
) -> None:
    command = command.replace("localhost:8000", f"localhost:{server.port}")
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    if shown:
        assert done.stdout.strip() == shown.strip()
    else:
        assert done.stdout.startswith("{") and "error" not in done.stdout


def test_the_defaults_of_the_page_are_those_of_the_command() -> None:
    from rankmesh.orchestrator.server.frontend.settings import ServerSettings
    from rankmesh.orchestrator.server.http.limits import HttpLimits

    rows = dict(re.findall(r"^\| `(--[a-z-]+)(?: [A-Z]+)?` \| (\S*)", PAGE, re.MULTILINE))
    limits, settings = HttpLimits(), ServerSettings()
    expected = {
        "--host": settings.host,
        "--port": settings.port,
        "--max-header-bytes": limits.header_bytes,
        "--max-headers": limits.headers,
        "--max-body-bytes": limits.body_bytes,
        "--max-connections": limits.connections,
        "--header-timeout": limits.header_seconds,
        "--body-timeout": limits.body_seconds,
        "--min-body-rate": limits.body_rate,
        "--idle-timeout": limits.idle_seconds,
        "--write-timeout": limits.write_seconds,
        "--drain-delay": settings.drain_delay,
        "--drain-timeout": settings.drain_timeout,
    }
    for option, value in expected.items():
        assert rows[option] == f"{value:g}" if isinstance(value, float) else str(value)


def test_the_commands_of_safety_make_files_that_the_server_takes(tmp_path: Path) -> None:
    from rankmesh.orchestrator.server.access.tls_files import TlsFiles, TlsIdentity
    from rankmesh.orchestrator.server.access.tokens import AccessTokens

    lines = re.findall(r"^(?:openssl req|TOKEN=|\(umask).*$", PAGE, re.MULTILINE)
    script = "\n".join([*lines, 'echo "$TOKEN" > token'])
    subprocess.run(["bash", "-ec", script], cwd=tmp_path, check=True, capture_output=True)
    TlsIdentity.read(TlsFiles(f"{tmp_path}/server.pem", f"{tmp_path}/server.key"))
    found = AccessTokens.read(f"{tmp_path}/tokens.yaml").find(
        (tmp_path / "token").read_bytes().strip()
    )
    assert found is not None and found.name == "web"
    (example,) = re.findall(r"^```yaml\n(tokens:.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    (tmp_path / "example.yaml").touch(0o600)
    (tmp_path / "example.yaml").write_text(example)
    AccessTokens.read(f"{tmp_path}/example.yaml")
