"""Ranks killed and stopped under load: `orchestrator_faults.py kill|stop SECONDS` prints what
became of it as JSON.

Two replicas answer eight clients. Every three seconds a random rank is sent SIGKILL (or SIGSTOP,
with a hang_timeout of one second). `detected` are the seconds from the signal until the
orchestrator says that the replica restarts, `again` those until that replica is ready again.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from orchestrator_models import write

_EVERY, _CLIENTS = 3.0, 8


class Clients:
    """Threads that check every answer."""

    def __init__(self, orchestrator: Any) -> None:
        self._orchestrator = orchestrator
        self.answered, self.failed, self.wrong = 0, 0, 0
        self._lock, self._going = threading.Lock(), True
        self._threads = [
            threading.Thread(target=self._run, args=(number,)) for number in range(_CLIENTS)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Wait for the requests under way."""
        self._going = False
        for thread in self._threads:
            thread.join()

    def _run(self, number: int) -> None:
        value = 0.0
        while self._going:
            value += 1
            array = np.full((64, 64), number * 1e4 + value, np.float32)
            try:
                right = bool((self._orchestrator.predict(array)["y"] == array * 2).all())
            except RuntimeError as error:
                print(error, file=sys.stderr)
                with self._lock:
                    self.failed += 1
            else:
                with self._lock:
                    self.answered, self.wrong = self.answered + 1, self.wrong + (not right)


def strike(orchestrator: Any, number: signal.Signals) -> tuple[float, float]:
    """Signal one rank; the seconds until that is known, and until all is well again."""
    victim = random.choice([one for one in orchestrator.status().ranks if one.pid])  # nosec B311  # any will do
    before = victim.restarts
    start = time.monotonic()
    os.kill(victim.pid, number)
    while _of(orchestrator, victim).restarts == before:
        time.sleep(0.0005)
    detected = time.monotonic() - start
    while _of(orchestrator, victim).state != "ready":
        time.sleep(0.001)
    return detected, time.monotonic() - start


def _of(orchestrator: Any, rank: Any) -> Any:
    return next(
        one
        for one in orchestrator.status().ranks
        if (one.replica, one.rank) == (rank.replica, rank.rank)
    )


def main() -> None:
    from rankmesh import Orchestrator

    how, seconds = sys.argv[1:]
    number = signal.SIGKILL if how == "kill" else signal.SIGSTOP
    with tempfile.TemporaryDirectory() as scratch:
        model = write(Path(scratch))["double"]
        with Orchestrator(
            model, replicas=2, threads=1, hang_timeout=30.0 if how == "kill" else 1.0
        ) as orchestrator:
            clients = Clients(orchestrator)
            strikes, end = [], time.monotonic() + float(seconds)
            while time.monotonic() < end:
                time.sleep(_EVERY)
                strikes.append(strike(orchestrator, number))
            clients.stop()
    print(
        json.dumps(
            {
                "answered": clients.answered,
                "failed": clients.failed,
                "wrong": clients.wrong,
                "detected": [one for one, _ in strikes],
                "again": [two for _, two in strikes],
            }
        )
    )


if __name__ == "__main__":
    main()
