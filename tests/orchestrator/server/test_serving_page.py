"""The commands of docs/serving.md, against the server that it starts."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from served_http import ServerProcess, serving
from served_models import SAMPLE

PAGE = (Path(__file__).parents[3] / "docs" / "serving.md").read_text()
(CONSOLE,) = re.findall(r"^```console\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
COMMANDS = re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", CONSOLE, re.MULTILINE)


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with serving(SAMPLE) as made:
        yield made


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
    from rankmesh.orchestrator.server.http.limits import HttpLimits
    from rankmesh.orchestrator.server.lifecycle.settings import ServerSettings

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
