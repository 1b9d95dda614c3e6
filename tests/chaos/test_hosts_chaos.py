"""Everything at once on three hosts, of which two are network namespaces: agents, cables and ranks
are struck, and no request is lost, wrong or answered twice.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from random import Random

import pytest
from chaos import Act, Client, Ledger, every, in_turn, kill, let_loose, look, pause, stop
from chaos_end import check, drain_while_ranks_die, wait_memory_free
from chaos_hosts import ChaosHosts
from chaos_weights import Updates
from host_away import why_not
from leftovers import nothing_left
from moody import moody, wait_ready
from served_models import doubler, weighed

from rankmesh import Orchestrator

pytestmark = [
    pytest.mark.alone,  # counts the requests that are answered in its time
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]

_COMMON = {"queue_limit": 25, "restart_budget": 1_000_000, "hang_timeout": 3}
_CLIENTS = 6
_PLACES = 4
"""For ranks on each host: two have room for all nine ranks but one."""

_SPANNING_SECONDS = 60
_MOST_DESCRIPTORS = 200
"""Of an agent with four ranks, however often it has joined and started some."""


def serve(
    folder: Path, hosts: ChaosHosts, trusted: str, models: dict[str, tuple[str, int]]
) -> Orchestrator:
    """Models on the three hosts: by name, each with its path and number of replicas."""
    settings = {
        **hosts.agents.settings,
        "trusted_networks": [trusted],
        "models": [
            {"name": name, "path": path, "replicas": replicas, **_COMMON}
            for name, (path, replicas) in models.items()
        ],
    }
    file = folder / "serve.yaml"
    file.write_text(json.dumps(settings))
    return Orchestrator(config=str(file))


def test_everything_at_once_on_three_hosts(tmp_path: Path, seconds: float, seed: int) -> None:
    """Nine ranks; tensors go to one of the hosts in clear, to the other encrypted."""
    ledger, updates = Ledger(), Updates()
    models = {
        "doubler": (doubler(tmp_path), 3),
        "moody": (moody(tmp_path, 2), 2),
        "weighed": (weighed(tmp_path, 2), 1),
    }
    with nothing_left(), ChaosHosts(tmp_path, _PLACES) as hosts:
        with serve(tmp_path, hosts, f"{hosts.far.address}/32", models) as orchestrator:
            actors: list[Act] = [
                *(Client() for _ in range(_CLIENTS)),
                every(1.5, [kill, kill, pause, stop]),
                in_turn(1.0, hosts.acts),
                look,
                updates.update,
                updates.ask,
            ]
            let_loose(orchestrator, ledger, actors, seconds / 2, seed)
            del actors[:]
            end(orchestrator, hosts, ledger, Random(seed), both=True)
        assert hosts.ends() == [0, 0, 0]
    print(dict(ledger.counts), dict(ledger.faults))
    assert ledger.counts["answered"] > 2 * seconds and len(ledger.faults) > 1


def end(
    orchestrator: Orchestrator, hosts: ChaosHosts, ledger: Ledger, rng: Random, both: bool
) -> None:
    """All replicas come back, all requests are answered, and nothing is left of them."""
    wait_ready(orchestrator)
    drain_while_ranks_die(orchestrator, ledger, rng, both)
    check(orchestrator, ledger)
    wait_memory_free(orchestrator)
    held = hosts.descriptors()
    print(held)
    assert max(held.values()) < _MOST_DESCRIPTORS


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_a_replica_on_two_hosts_comes_back_each_time(
    tmp_path: Path, seconds: float, seed: int
) -> None:
    """Two hosts have a place for one rank each; the third may not take part in collectives."""
    if seconds < _SPANNING_SECONDS:
        pytest.skip(f"such a replica needs seconds to start: --chaos-seconds {_SPANNING_SECONDS}")
    ledger = Ledger()
    models = {"moody": (moody(tmp_path, 2), 1)}
    with nothing_left(), ChaosHosts(tmp_path, 1) as hosts:
        network = f"{hosts.far.here.rpartition('.')[0]}.0/24"
        with serve(tmp_path, hosts, network, models) as orchestrator:
            strikes = in_turn(10.0, [hosts.kill, hosts.stop, hosts.cut, hosts.slow, kill, stop])
            actors = [*(Client(both=False) for _ in range(3)), strikes, look]
            let_loose(orchestrator, ledger, actors, seconds, seed)
            del actors[:]
            end(orchestrator, hosts, ledger, Random(seed), both=False)
        assert hosts.ends() == [0, 0, 0]
    print(dict(ledger.counts), dict(ledger.faults))
    assert ledger.counts["answered"] > seconds and ledger.faults
