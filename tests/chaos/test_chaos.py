"""Everything at once: nothing is lost, wrong or left over, and the counters add up."""

from __future__ import annotations

import ctypes
import time
from pathlib import Path
from random import Random

import pytest
from chaos import Act, Client, Ledger, every, kill, let_loose, look, pause, stop
from chaos_end import check, drain_while_ranks_die, wait_memory_free
from chaos_weights import Updates
from leftovers import nothing_left
from moody import moody
from served_models import doubler, weighed

from rankmesh import Orchestrator

pytestmark = pytest.mark.alone  # measures the memory of this process

_SETTINGS = """
models:
  - path: {doubler}
    name: doubler
    replicas: 2
    batching: {{max_batch: 5000, max_delay: 0.001, inputs: [x]}}
    queue_limit: 25
    restart_budget: 1000000
    hang_timeout: {hang}
  - path: {moody}
    name: moody
    queue_limit: 25
    restart_budget: 1000000
    hang_timeout: {hang}
  - path: {weighed}
    name: weighed
    restart_budget: 1000000
    hang_timeout: {hang}
"""
_CLIENTS = 8
_GROWTH = 150 << 20


def serve(folder: Path, hang: float) -> Orchestrator:
    """Ranks that make no progress for `hang` seconds are killed."""
    file = folder / "serve.yaml"
    file.write_text(
        _SETTINGS.format(
            doubler=doubler(folder),
            moody=moody(folder, 2),
            weighed=weighed(folder, 2),
            hang=hang,
        )
    )
    return Orchestrator(config=str(file))


@pytest.mark.slow
def test_everything_at_once(tmp_path: Path, seconds: float, seed: int) -> None:
    ledger, updates = Ledger(), Updates()
    with nothing_left(), serve(tmp_path, hang=1.5) as orchestrator:
        memory = own_memory()
        actors: list[Act] = [
            *(Client() for _ in range(_CLIENTS)),
            every(1.0, [kill, kill, pause, stop]),
            look,
            updates.update,
            updates.ask,
        ]
        let_loose(orchestrator, ledger, actors, seconds, seed)
        drain_while_ranks_die(orchestrator, ledger, Random(seed))
        check(orchestrator, ledger)
        del actors[:]
        wait_memory_free(orchestrator)
        growth = own_memory() - memory
    print(dict(ledger.counts), dict(ledger.faults), f"{growth >> 20} MiB more")
    assert growth < _GROWTH  # whatever the time
    assert (
        ledger.counts["answered"] > 20 * seconds / 10 and ledger.faults and ledger.counts["updates"]
    )


def own_memory() -> int:
    """Bytes of memory that is no file's, also no shared one's; without what is free but not given
    back.
    """
    ctypes.CDLL(None).malloc_trim(0)
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon"))


@pytest.mark.slow
def test_killing_a_rank_now_and_then_fails_no_request(
    tmp_path: Path, seconds: float, seed: int
) -> None:
    ledger, latencies = Ledger(), []

    def ask(rng: Random, orchestrator: Orchestrator, ledger: Ledger) -> None:
        given, wanted, _, model = Client()._request(rng)
        if wanted is None or given["x"].size > 1000:
            return
        ledger.count("accepted")
        began = time.monotonic()
        ledger.settle(orchestrator.submit(given, model=model), wanted)
        latencies.append(time.monotonic() - began)

    with nothing_left(), serve(tmp_path, hang=30) as orchestrator:
        let_loose(orchestrator, ledger, [ask] * _CLIENTS + [every(2.0, [kill])], seconds / 3, seed)
        check(orchestrator, ledger)
    assert ledger.counts["failed"] == 0 and ledger.faults["SIGKILL"] > 0
    assert max(latencies) < 60
