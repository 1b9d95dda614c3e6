"""Ray's own actor on another host: a cluster of two network namespaces, for
bench/hosts_orchestrator.py.

Ray has daemons that take processor time while nothing is asked of them. So it is measured after all
others, and its cluster ends with the measurement.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_IP = shutil.which("ip") or "ip"
_PROGRAM = str(Path(__file__).with_name("hosts_ray_program.py"))
_PORT = 6410
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_raylet_start_wait_time_s": "200"}


def measured(
    python: str, names: list[str], addresses: tuple[str, str], rounds: int
) -> list[dict[str, float]]:
    """The round trips of so many rounds; `python` is of an environment that has Ray and numpy."""
    with _cluster(python, names, addresses) as address:
        return [
            json.loads(_run(names[0], python, _PROGRAM, address).splitlines()[-1])
            for _ in range(rounds)
        ]


@contextmanager
def _cluster(python: str, names: list[str], addresses: tuple[str, str]) -> Iterator[str]:
    """A node of two cores on each host; the address of the cluster."""
    ray = str(Path(python).with_name("ray"))
    head = f"{addresses[0]}:{_PORT}"
    with tempfile.TemporaryDirectory(prefix="r") as folder:  # whose sockets need a short path
        roles = [
            ("--head", "--port", str(_PORT), "--include-dashboard", "false", "--temp-dir", folder),
            ("--address", head, "--resources", '{"far": 1}'),
        ]
        try:
            for name, own, other, role in zip(
                names, addresses, reversed(addresses), roles, strict=True
            ):
                # by which Ray finds out its host's address
                _run(name, _IP, "route", "replace", "default", "via", other)
                node = ("--node-ip-address", own, "--num-cpus", "2")
                _run(name, ray, "start", *node, "--object-store-memory", "160000000", *role)
            yield head
        finally:
            for name in names:
                _end_all(name)


def _run(host: str, *command: str) -> str:
    done = subprocess.run(
        [_IP, "netns", "exec", host, *command],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **_QUIET},
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout


def _end_all(host: str) -> None:
    """Kill what runs on a host: `ray stop` would end every Ray of the machine."""
    pids = subprocess.run(
        [_IP, "netns", "pids", host], stdout=subprocess.PIPE, text=True, check=True
    )
    for pid in pids.stdout.split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
