"""The end of chaos: all requests are answered, the counters add up, and all memory is free."""

from __future__ import annotations

import gc
import threading
from random import Random

from chaos import Client, Ledger, kill
from processes import wait_until

from rankmesh import Orchestrator


def wait_memory_free(orchestrator: Orchestrator) -> None:
    """Until no request has memory any more."""
    arena = orchestrator._fleet.parts.arena
    wait_until(lambda: gc.collect() >= 0 and arena.used == 0, "all memory of requests to be free")


def drain_while_ranks_die(
    orchestrator: Orchestrator, ledger: Ledger, rng: Random, both: bool = True
) -> None:
    """All that has been accepted is answered before the drain ends, restarts or not. See Client."""
    asked = [
        one
        for one in (Client(both)._ask(rng, orchestrator, ledger) for _ in range(60))
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
