"""An orchestrator of many ranks: its own processor time and memory, and how it recovers.

    python bench/scale.py [--rounds 3] [--ranks 1000] [--requests 5000]

The scheduler, supervision and protocol of agents are the real ones. Hosts, agents and ranks are
simulated (tests/support/simulation) in virtual time: a seed decides how long requests take, and
what fails. Each row is a process of its own; rounds are interleaved. docs/scale.md has the figures.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from report import print_machine, print_table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from simulation.chance import ClusterSettings
from simulation.deployment import Deployment, deployed
from simulation.load import Load

_PER_HOST = 8
_SPARE_HOSTS = 2
_USE = 0.7
_IDLE = 20.0
_WITHIN = 1e5
_SEED = 17
_DESCRIPTORS = 2
"""Of each replica."""


class Case(NamedTuple):
    """`replicas` of `ranks` ranks; `at_slot`: answers wake a server's loop."""

    replicas: int
    ranks: int
    at_slot: bool = False

    @property
    def hosts(self) -> int:
        """Hosts that are needed, and some more."""
        return -(-self.replicas * self.ranks // self.per_host) + _SPARE_HOSTS

    @property
    def per_host(self) -> int:
        """Ranks on each host; a replica is on one host."""
        return max(_PER_HOST, self.ranks)

    def __str__(self) -> str:
        return f"{self.replicas:,} x {self.ranks}{', server' if self.at_slot else ''}"


Figures = Mapping[str, float]


def cases(ranks: int) -> list[Case]:
    """The rows: small deployments, and all `ranks` in replicas of one and of a host."""
    found = [Case(1, 1), Case(16, 8), Case(16, 64), Case(ranks // _PER_HOST, _PER_HOST)]
    server = [found[-1]._replace(at_slot=True)]
    return [*found, Case(ranks, 1), *server]


def measure(case: Case, requests: int) -> Figures:
    """All figures of one deployment."""
    settings = ClusterSettings(case.hosts, case.per_host, start=30.0, repair=600.0)
    before = _resident()
    with deployed(case.replicas, case.ranks, settings, _SEED) as deployment:
        started = deployment.loop.meter.own
        load = Load(deployment, _USE * case.replicas / settings.service, case.at_slot)
        load.run((case.ranks + 2) * case.replicas, _WITHIN)  # all slots of the rings are in use
        memory = _resident() - before
        return {
            "start_us": started / 1e3 / case.replicas,
            "memory_kib": memory / 1024 / case.replicas,
            **_requests(deployment, load, requests),
            **_idle(deployment),
            **_failures(deployment, load, requests),
        }


def _requests(deployment: Deployment, load: Load, requests: int) -> Figures:
    """Of one request: processor time, messages and bytes."""
    agents = deployment.cluster.agents
    own, sent = deployment.loop.meter.own, [_traffic(one) for one in agents]
    load.run(requests, _WITHIN)
    own = deployment.loop.meter.own - own
    now = [_traffic(one) for one in agents]
    messages, size = (
        sum(b[part] - a[part] for a, b in zip(sent, now, strict=True)) for part in (0, 1)
    )
    return {
        "request_us": own / 1e3 / requests,
        "messages": messages / requests,
        "bytes": size / requests,
    }


def _idle(deployment: Deployment) -> Figures:
    """Processor time of a second without requests."""
    own, until = deployment.loop.meter.own, deployment.clock.now + _IDLE
    deployment.loop.turn_until(lambda: deployment.clock.now >= until, _WITHIN)
    return {"idle_ms": (deployment.loop.meter.own - own) / 1e6 / _IDLE}


def _failures(deployment: Deployment, load: Load, requests: int) -> Figures:
    """The loss of a rank, and of a host, under load."""
    cluster, found = deployment.cluster, dict[str, float]()
    for name, lose in (("rank", cluster.lose_ranks), ("host", cluster.lose_hosts)):
        for replica in deployment.replicas:
            replica.outages.clear()
        deployment.loop.simulate(0.0, partial(lose, 1))
        outcomes = load.run(requests, _WITHIN)
        deployment.loop.turn_until(deployment.settled, _WITHIN)
        assert outcomes.right, outcomes
        seconds = [one.seconds for replica in deployment.replicas for one in replica.outages]
        found[f"{name}_recovered"] = max(seconds, default=0.0)
        found[f"{name}_replayed"] = sum(
            len(one.again) for replica in deployment.replicas for one in replica.outages
        )
        found[f"{name}_longest"] = max(outcomes.seconds)
    found["host_own_ms"] = cluster.longest_loss / 1e6
    return found


def _traffic(agent: object) -> tuple[int, int]:
    both = agent.sent, agent.received
    return sum(one.messages for one in both), sum(one.size for one in both)


def _resident() -> int:
    """Bytes of memory of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def _in_process(case: Case, requests: int) -> Figures:
    command = [sys.executable, __file__, "--one", *map(str, map(int, case)), str(requests)]
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


def _print(results: Mapping[str, list[Figures]]) -> None:
    rows = []
    for name, rounds in results.items():
        figures = {key: median(one[key] for one in rounds) for key in rounds[0]}
        rows.append(
            [
                name,
                f"{figures['request_us']:.0f}",
                f"{1e6 / figures['request_us']:,.0f}",
                f"{figures['messages']:.1f}",
                f"{figures['bytes']:,.0f}",
                f"{figures['idle_ms']:.1f}",
                f"{figures['start_us']:,.0f}",
                f"{figures['memory_kib']:,.0f}",
                f"{figures['rank_recovered']:.1f}, {figures['rank_longest']:.1f}",
                f"{figures['host_recovered']:.1f}, {figures['host_longest']:.1f}",
                f"{figures['host_own_ms']:.1f}",
            ]
        )
    header = "replicas x ranks|us/request|requests/s|messages|bytes|idle ms/s|start us|KiB"
    print_table([*header.split("|"), "rank lost s", "host lost s", "host lost ms"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description="An orchestrator of many simulated ranks.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=1000)
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--one", type=int, nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        replicas, ranks, at_slot, requests = options.one
        print(json.dumps(measure(Case(replicas, ranks, bool(at_slot)), requests)))
        return
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    rows = [one for one in cases(options.ranks) if one.replicas * _DESCRIPTORS < limit - 500]
    print_machine("numpy", "msgspec")
    results: dict[str, list[Figures]] = {str(case): [] for case in rows}
    for _ in range(options.rounds):  # no wait for a quiet machine: all of it is processor time
        for case in rows:
            results[str(case)].append(_in_process(case, options.requests))
    _print(results)


if __name__ == "__main__":
    main()
