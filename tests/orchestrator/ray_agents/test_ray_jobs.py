"""Orchestrators in jobs of Ray, in deployments of Ray Serve, and where an autoscaler adds hosts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts import Host
from onnx import save
from onnx_models import model, node
from ray_hosts import MARKS, PORT, PYTHON, head_folder, hosts_for_ray, start_ray
from served_models import doubler

JOB = Path(__file__).parents[2] / "support" / "ray_job.py"
SERVE = Path(__file__).parents[3] / "examples" / "ray_serve" / "main.py"
HEAD = ("--head", "--port", str(PORT))
AUTOSCALED_PORT = 6379
"""Where the hosts that Ray's provider for tests starts look for the head."""

_COMMANDS = ("setup_commands", "start_ray_commands")
pytestmark = MARKS


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """A host with nothing on it yet."""
    with hosts_for_ray(tmp_path) as hosts:
        yield hosts.one


def output_of(host: Host, *command: object, **environment: str) -> str:
    program = host.start(*command, **environment)
    output, errors = program.communicate(timeout=300)
    assert program.returncode == 0, output + errors
    return output


def test_a_submitted_job_finds_its_cluster_and_brings_its_files(host: Host, tmp_path: Path) -> None:
    job = tmp_path / "job"
    job.mkdir()
    doubler(job)
    (job / "main.py").write_text(JOB.read_text())
    with head_folder() as folder:
        start_ray(host, *HEAD, "--temp-dir", folder, "--dashboard-host", "127.0.0.1")
        submit = [Path(PYTHON).with_name("ray"), "job", "submit", "--working-dir", job]
        program = ["--", PYTHON, "-P", "main.py", "doubler.onnx"]
        output = output_of(host, *submit, *program, RAY_ADDRESS="http://127.0.0.1:8265")
    assert "answered True one" in output and "succeeded" in output


def test_a_deployment_of_ray_serve_answers_by_its_handle(host: Host, tmp_path: Path) -> None:
    with head_folder() as folder:
        start_ray(host, *HEAD, "--temp-dir", folder, "--include-dashboard", "false", cores=4)
        address = f"{host.address}:{PORT}"
        output = output_of(host, PYTHON, SERVE, whole_model(tmp_path), "--address", address)
    assert "100 answers: y = [[2. 2. 2. 2.]]" in output


def whole_model(folder: Path) -> Path:
    """y = x + x of one row, by one rank."""
    made = model([node("Add", "x x", "y")], {"x": [1, 4]}, {"y": [1, 4]})
    save(made, str(folder / "double.onnx"))
    return folder / "double.onnx"


def test_an_autoscaler_adds_the_host_that_a_replica_needs(host: Host, tmp_path: Path) -> None:
    config = tmp_path / "autoscaler.json"
    config.write_text(json.dumps(autoscaled(cores=2)))
    with head_folder() as folder:
        scaled = ("--autoscaling-config", str(config), "--temp-dir", folder)
        quick = {"AUTOSCALER_UPDATE_INTERVAL_S": "1", "RAY_FAKE_CLUSTER": "1"}
        head = ("--head", "--port", str(AUTOSCALED_PORT), "--include-dashboard", "false")
        start_ray(host, *head, *scaled, cores=0, **quick)
        address = f"{host.address}:{AUTOSCALED_PORT}"
        output = output_of(host, PYTHON, "-P", JOB, doubler(tmp_path), RAY_ADDRESS=address)
    assert "answered True one" in output


def autoscaled(cores: int) -> dict[str, object]:
    """Of an autoscaler that may add two hosts: processes that it starts beside the head."""
    lists = ["initialization_commands", "setup_commands", "cluster_synced_files"]
    lists += ["rsync_exclude", "rsync_filter"]
    lists += [f"{kind}_{name}" for kind in ("head", "worker") for name in _COMMANDS]
    head, worker = ({"resources": {"CPU": one}, "node_config": {}} for one in (0, cores))
    return {
        "cluster_name": "hosts",
        "max_workers": 2,
        "idle_timeout_minutes": 5,
        "provider": {
            "type": "fake_multinode",
            "use_node_id_as_ip": False,
            "use_static_ips": True,
            "disable_node_updaters": True,
        },
        "available_node_types": {
            "ray.head.default": {**head, "max_workers": 0},
            "worker": {**worker, "max_workers": 2},
        },
        "head_node_type": "ray.head.default",
        "upscaling_speed": 1.0,
        "file_mounts_sync_continuously": False,
        **dict.fromkeys(["auth", "head_node", "worker_nodes", "file_mounts"], {}),
        **dict.fromkeys(lists, []),
    }
