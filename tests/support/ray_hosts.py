"""Ray on hosts that are network namespaces; it wants packages that these tests do not need.

RANKMESH_RAY_PYTHON names the interpreter of an environment that has Rankmesh and Ray.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hosts import Host, TwoHosts, ip, why_not

PYTHON = os.environ.get("RANKMESH_RAY_PYTHON", "")
PORT = 6400
MARKS = [
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
    pytest.mark.skipif(not PYTHON, reason="RANKMESH_RAY_PYTHON names no Python that has Ray"),
    pytest.mark.timeout(400),
    pytest.mark.slow,
]
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_raylet_start_wait_time_s": "200"}


@contextmanager
def hosts_for_ray(folder: Path) -> Iterator[TwoHosts]:
    """Two hosts that Ray may be started on; it ends with them."""
    with TwoHosts(folder) as hosts:
        for host, other in ((hosts.one, hosts.two), (hosts.two, hosts.one)):
            # by which Ray finds out its host's address
            ip("-n", host.namespace, "route", "add", "default", "via", other.address)
        try:
            yield hosts
        finally:
            for host in hosts.both:
                _end_all(host)


@contextmanager
def head_folder() -> Iterator[str]:
    """A folder for the sockets of Ray, which need a short path."""
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield folder


def start_ray(host: Host, *arguments: str, cores: int = 2, **environment: str) -> None:
    """Start a node; Ray ends nothing of other clusters, as `ray stop` would."""
    command = [Path(PYTHON).with_name("ray"), "start", "--node-ip-address", host.address]
    command += ["--num-cpus", str(cores), "--object-store-memory", "80000000", *arguments]
    started = host.start(*command, **_QUIET, **environment)
    output, errors = started.communicate(timeout=200)
    assert started.returncode == 0, output + errors


def _end_all(host: Host) -> None:
    """Kill what runs on a host; Ray's own end is one for all clusters of a machine."""
    found = subprocess.run(
        ["ip", "netns", "pids", host.namespace], capture_output=True, text=True, check=True
    )
    for pid in found.stdout.split():
        subprocess.run(["kill", "-KILL", pid], check=False)
