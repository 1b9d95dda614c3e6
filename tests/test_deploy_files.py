"""Files of docs/deploy: their schemas, and what they say about the server."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "docs" / "deploy"
OPTIONS = json.loads((ROOT / "tests" / "data" / "api.json").read_text())["commands"]
DRAINS = 30.0
"""Seconds of --drain-timeout where it is not given."""


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


def container(name: str) -> dict[str, Any]:
    """The container of the server in the first document of a file."""
    spec = documents(name)[0]["spec"]
    found = spec.get("template", {}).get("spec", spec)["containers"][0]
    assert isinstance(found, dict)
    return found


def arguments() -> dict[str, list[str]]:
    """The arguments of the server in each file."""
    made = re.search(r"^CMD (\[\"--model.*\])$", (DEPLOY / "Containerfile").read_text(), re.M)
    unit = re.search(r"^ExecStart=\S+ serve (.*)$", (DEPLOY / "rankmesh.service").read_text(), re.M)
    assert made and unit
    return {
        "Containerfile": json.loads(made[1]),
        "compose.yaml": documents("compose.yaml")[0]["services"]["rankmesh"]["command"],
        "kubernetes.yaml": container("kubernetes.yaml")["args"],
        "kserve.yaml": container("kserve.yaml")["args"],
        "rankmesh.service": unit[1].split(),
    }


@pytest.mark.pure
@pytest.mark.parametrize("name", arguments())
def test_the_server_has_all_options(name: str) -> None:
    known = set(OPTIONS["rankmesh serve"])
    given = {one.partition("=")[0] for one in arguments()[name] if one.startswith("--")}
    assert "--model-repository" in given and given <= known


@pytest.mark.pure
@pytest.mark.parametrize("name", ["kubernetes.yaml", "kserve.yaml"])
def test_probes_ask_the_paths_of_the_protocol(name: str) -> None:
    found = container(name)
    paths = {kind: found[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "readiness")}
    assert paths == {"startup": "/v2/health/ready", "readiness": "/v2/health/ready"}
    assert found["livenessProbe"]["httpGet"]["path"] == "/v2/health/live"


@pytest.mark.pure
def test_the_end_has_time_to_drain() -> None:
    given = dict(one.partition("=")[::2] for one in container("kubernetes.yaml")["args"])
    needed = float(given["--drain-delay"]) + float(given["--drain-timeout"])
    pod = documents("kubernetes.yaml")[0]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > needed
    service = documents("compose.yaml")[0]["services"]["rankmesh"]
    assert float(service["stop_grace_period"].removesuffix("s")) > DRAINS
    unit = (DEPLOY / "rankmesh.service").read_text()
    assert float(unit.partition("TimeoutStopSec=")[2].split()[0]) > DRAINS
    assert "KillMode=mixed" in unit  # TERM is for the server alone, which ends its ranks


@pytest.mark.pure
def test_every_file_is_explained() -> None:
    page = (DEPLOY / "README.md").read_text()
    names = {path.name for path in DEPLOY.iterdir()} - {"README.md"}
    assert names == set(re.findall(r"\]\(([\w.-]+)\)", page))


@pytest.mark.pure
def test_the_serving_runtime_fits_its_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="no jsonschema")
    schema = json.loads((ROOT / "tests/data/deploy/serving_runtime.json").read_text())
    jsonschema.validate(documents("kserve.yaml")[0], schema)


@pytest.mark.parametrize(
    "command",
    [
        ["kubernetes-validate", "--strict", "kubernetes.yaml"],
        ["check-jsonschema", "--builtin-schema", "vendor.compose-spec", "compose.yaml"],
        ["hadolint", "Containerfile", "mpi.Containerfile"],
    ],
    ids=lambda command: command[0],
)
def test_a_file_passes_the_check_of_its_tool(command: list[str]) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]}: pip install {command[0].replace('lint', 'lint-bin')}")
    done = subprocess.run(command, cwd=DEPLOY, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze, of Debian's systemd")
    unit = tmp_path / "rankmesh.service"
    text = (DEPLOY / "rankmesh.service").read_text()
    unit.write_text(text.replace("/opt/rankmesh/bin/rankmesh", "/bin/true"))
    command = ["systemd-analyze", "verify", "--man=no", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
