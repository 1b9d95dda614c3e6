"""Everything at once: nothing is lost, wrong or left over, and the counters add up."""

from __future__ import annotations

import ctypes
import gc
import threading
import time
from pathlib import Path
from random import Random

import pytest
from chaos import Act, Client, Ledger, every, kill, let_loose, look, pause, stop
from chaos_weights import Updates
from leftovers import nothing_left
from moody import moody
from processes import wait_until
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
        arena = orchestrator._fleet.parts.arena
        wait_until(
            lambda: gc.collect() >= 0 and arena.used == 0, "all memory of requests to be free"
        )
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


def drain_while_ranks_die(orchestrator: Orchestrator, ledger: Ledger, rng: Random) -> None:
    """All that has been accepted is answered before the drain ends, restarts or not."""
    asked = [
        one
        for one in (Client()._ask(rng, orchestrator, ledger) for _ in range(60))
        if one is not None
    ]
    killing = threading.Thread(target=kill, args=(rng, orchestrator, ledger))
    killing.start()
    drained = orchestrator.drain(100)
    killing.join()
    for future, wanted, kind in asked:
        if not future.done():
            ledger.complain("the drain has ended before all requests were answered")
        ledger.settle(future, wanted, kind)
    if not drained:
        ledger.complain("the drain came to no end")


def check(orchestrator: Orchestrator, ledger: Ledger) -> None:
    """What clients have seen is what the orchestrator says, and every request has ended once."""
    assert not ledger.unexpected, "\n".join(ledger.unexpected[:10])
    seen = ledger.counts
    assert seen["accepted"] == seen["answered"] + seen["failed"] + seen["cancelled"]
    metrics = orchestrator.metrics().values()
    assert {
        name: sum(counts[name] for counts in metrics)
        for name in ("accepted", "answered", "cancelled")
    } == {name: seen[name] for name in ("accepted", "answered", "cancelled")}
    assert sum(sum(counts["failed"].values()) for counts in metrics) == seen["failed"]
    assert sum(sum(counts["refused"].values()) for counts in metrics) == seen["refused"]
    assert all(counts["queue_depth"] == 0 for counts in metrics)


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
