"""An orchestrator on a Ray cluster of two hosts, of which one is cut off."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts import NETWORK, TwoHosts
from moody import moody
from processes import PATIENCE
from ray_hosts import MARKS, PORT, PYTHON, head_folder, hosts_for_ray, start_ray
from served_models import doubler

SUPPORT = Path(__file__).parents[2] / "support"
PROGRAM, SPAN = SUPPORT / "ray_program.py", SUPPORT / "ray_span_program.py"
pytestmark = MARKS


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[TwoHosts]:
    with head_folder() as folder, hosts_for_ray(tmp_path) as hosts:
        head = ("--head", "--port", str(PORT), "--include-dashboard", "false")
        start_ray(hosts.one, *head, "--temp-dir", folder)
        start_ray(hosts.two, "--address", f"{hosts.one.address}:{PORT}")
        yield hosts


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
