"""An orchestrator on a Ray cluster of two hosts, of which one is cut off.

Ray wants packages that these tests do not need: RANKMESH_RAY_PYTHON names the interpreter of an
environment that has Rankmesh and Ray.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts import NETWORK, Host, TwoHosts, ip, why_not
from moody import moody
from processes import PATIENCE
from served_models import doubler

PYTHON = os.environ.get("RANKMESH_RAY_PYTHON", "")
SUPPORT = Path(__file__).parents[2] / "support"
PROGRAM, SPAN = SUPPORT / "ray_program.py", SUPPORT / "ray_span_program.py"
pytestmark = [
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
    pytest.mark.skipif(not PYTHON, reason="RANKMESH_RAY_PYTHON names no Python that has Ray"),
    pytest.mark.timeout(400),
    pytest.mark.slow,
]
PORT = 6400
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_raylet_start_wait_time_s": "200"}


def start_ray(host: Host, *arguments: str) -> None:
    """Start a node of two cores; Ray ends nothing of other clusters, as `ray stop` would."""
    command = [Path(PYTHON).with_name("ray"), "start", "--node-ip-address", host.address]
    command += ["--num-cpus", "2", "--object-store-memory", "80000000", *arguments]
    started = host.start(*command, **QUIET)
    output, errors = started.communicate(timeout=200)
    assert started.returncode == 0, output + errors


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[TwoHosts]:
    with TwoHosts(tmp_path) as hosts, tempfile.TemporaryDirectory(dir="/tmp") as folder:
        for host, other in ((hosts.one, hosts.two), (hosts.two, hosts.one)):
            # by which Ray finds out its host's address
            ip("-n", host.namespace, "route", "add", "default", "via", other.address)
        try:
            head = ("--head", "--port", str(PORT), "--include-dashboard", "false")
            start_ray(hosts.one, *head, "--temp-dir", folder)  # whose sockets need a short path
            start_ray(hosts.two, "--address", f"{hosts.one.address}:{PORT}")
            yield hosts
        finally:
            for host in hosts.both:
                end_all(host)


def end_all(host: Host) -> None:
    """Kill what runs on a host; Ray's own end is one for all clusters of a machine."""
    found = subprocess.run(
        ["ip", "netns", "pids", host.namespace], capture_output=True, text=True, check=True
    )
    for pid in found.stdout.split():
        subprocess.run(["kill", "-KILL", pid], check=False)


@pytest.mark.parametrize("ranks", [4, 2])
def test_a_replica_that_no_host_has_room_for_is_on_both(
    cluster: TwoHosts, tmp_path: Path, ranks: int
) -> None:
    head = f"{cluster.one.address}:{PORT}"
    command = (PYTHON, "-P", SPAN, moody(tmp_path, ranks), ranks, f"{NETWORK}.0/24")
    program = cluster.one.start(*command, RAY_ADDRESS=head)
    output, errors = program.communicate(timeout=300)
    assert program.returncode == 0, output + errors
    told = json.loads(output.splitlines()[-1])
    one, two = ([host.name] * (ranks // 2) for host in cluster.both)
    assert told["hosts"] in (one + two, two + one)
    assert all(told["right"]) and len(told["right"]) == 11
    (killed,) = told["outages"]
    assert f"rank {ranks - 1} of {ranks}" in killed and "was killed by SIGKILL" in killed


def test_replicas_are_placed_by_ray_and_survive_a_cut(cluster: TwoHosts, tmp_path: Path) -> None:
    model = doubler(tmp_path)
    program = cluster.one.start(
        PYTHON, "-P", PROGRAM, model, RAY_ADDRESS=f"{cluster.one.address}:{PORT}"
    )
    assert program.stdout is not None
    line = program.stdout.readline()
    assert line == "ready\n", line + program.communicate(timeout=PATIENCE)[1]
    cut = time.time()
    cluster.two.set_cable("down")
    output, errors = program.communicate(timeout=200)
    told = json.loads(output.splitlines()[-1])  # Ray writes there, too
    assert told["same"] and told["answer"] == [[0.0, 2.0, 4.0, 6.0]], errors
    (killed, _), (lost, when) = told["outages"]
    assert "was killed by SIGKILL" in killed
    assert "was lost with agent ray-" in lost
    assert when - cut < PATIENCE
    assert "no host of the Ray cluster has room for 64 CPU and 0 GPU" in told["refusal"]
