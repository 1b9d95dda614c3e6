"""Everything at once on three hosts, of which two are network namespaces: agents, cables and ranks
are struck, and no request is lost, wrong or answered twice.
"""

from __future__ import annotations

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
from processes import PATIENCE
from served_models import doubler, weighed

from rankmesh import Orchestrator

pytestmark = [
    pytest.mark.alone,  # counts the requests that are answered in its time
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]

_SETTINGS = """
models:
  - path: {doubler}
    name: doubler
    replicas: 3
    queue_limit: 25
    restart_budget: 1000000
    hang_timeout: 1.5
  - path: {moody}
    name: moody
    replicas: 2
    queue_limit: 25
    restart_budget: 1000000
    hang_timeout: 1.5
  - path: {weighed}
    name: weighed
    restart_budget: 1000000
    hang_timeout: 1.5
"""
_CLIENTS = 6
_PLACES = 4
"""For ranks on each host: two have room for all nine ranks but one."""


def serve(folder: Path, hosts: ChaosHosts) -> Orchestrator:
    """Nine ranks on the three hosts."""
    file = folder / "serve.yaml"
    models = _SETTINGS.format(
        doubler=doubler(folder), moody=moody(folder, 2), weighed=weighed(folder, 2)
    )
    settings = {**hosts.agents.settings, "trusted_networks": [f"{hosts.far.address}/32"]}
    lines = [f"{name}: {json.dumps(value)}\n" for name, value in settings.items()]
    file.write_text("".join(lines) + models)
    return Orchestrator(config=str(file))


def test_everything_at_once_on_three_hosts(tmp_path: Path, seconds: float, seed: int) -> None:
    ledger, updates = Ledger(), Updates()
    with nothing_left(), ChaosHosts(tmp_path, _PLACES) as hosts:
        with serve(tmp_path, hosts) as orchestrator:
            actors: list[Act] = [
                *(Client() for _ in range(_CLIENTS)),
                every(1.5, [kill, kill, pause, stop]),
                in_turn(1.0, hosts.acts),
                look,
                updates.update,
                updates.ask,
            ]
            let_loose(orchestrator, ledger, actors, seconds, seed)
            wait_ready(orchestrator)
            drain_while_ranks_die(orchestrator, ledger, Random(seed))
            check(orchestrator, ledger)
            del actors[:]
            wait_memory_free(orchestrator)
        ends = [one.wait(PATIENCE) for one in hosts.agents.started.values()]
    print(dict(ledger.counts), dict(ledger.faults))
    assert ends == [0, 0, 0]
    assert ledger.counts["answered"] > 2 * seconds and len(ledger.faults) > 3
