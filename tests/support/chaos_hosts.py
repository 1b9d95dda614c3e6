"""Three hosts of an orchestrator's ranks, and actors that strike them: agents, cables and networks.

One agent is on the orchestrator's own host, one on a host beside, and one on a host away, whose
packets may be late or lost.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from random import Random
from typing import Self

import psutil
from agents import Agents
from chaos import Act, Ledger
from host_away import HostAway
from host_beside import HostBeside
from processes import PATIENCE

from rankmesh import Orchestrator

NEAR, FAR, AWAY = "near", "far", "away"
SILENCE = 2.0
"""Seconds without a sign of life after which either end takes the other one for lost."""

_RATES = ("2mbit", "20mbit", "200mbit")
_LONGEST = 2 * SILENCE


class ChaosHosts:
    """A context manager that starts the agents; all its other methods are actors."""

    def __init__(self, folder: Path, places: int) -> None:
        """`places` are how many ranks each agent takes."""
        self.agents = Agents(folder, "0.0.0.0")
        self.far, self.away = HostBeside(folder, FAR), HostAway(folder, AWAY)
        self._places = places

    def __enter__(self) -> Self:
        self.agents.__enter__()
        patience = ("--host-timeout", SILENCE)
        for host in (self.far, self.away):
            host.__enter__()
            before = host.command([])
            self.agents.start(host.name, self._places, *patience, before=before, at=host.here)
        self.agents.start(NEAR, self._places, *patience, at=self.far.here)
        return self

    def __exit__(self, *_: object) -> None:
        self.agents.__exit__()
        for host in (self.far, self.away):
            host.__exit__()

    @property
    def acts(self) -> list[Act]:
        """All that can happen to hosts."""
        return [self.kill, self.stop, self.cut, self.slow, self.lose, self.delay]

    def ends(self) -> list[int]:
        """How the agents have ended; waits for their end."""
        return [one.wait(PATIENCE) for one in self.agents.started.values()]

    def descriptors(self) -> dict[str, int]:
        """How many descriptors each agent has open."""
        return {
            name: psutil.Process(one.pid).num_fds() for name, one in self.agents.started.items()
        }

    def kill(self, rng: Random, orchestrator: Orchestrator, ledger: Ledger) -> None:
        """An agent dies, and is started again."""
        name = rng.choice(sorted(self.agents.started))
        ledger.fault("agent killed")
        self.agents.kill(name)
        time.sleep(rng.random())
        self.agents.start_again(name)

    def stop(self, rng: Random, orchestrator: Orchestrator, ledger: Ledger) -> None:
        """An agent is stopped for a while, in which it may be taken for lost."""
        process = self.agents.started[rng.choice(sorted(self.agents.started))]
        ledger.fault("agent stopped")
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(rng.random() * _LONGEST)
        os.kill(process.pid, signal.SIGCONT)

    def cut(self, rng: Random, orchestrator: Orchestrator, ledger: Ledger) -> None:
        """A cable is unplugged for a while."""
        host = rng.choice((self.far, self.away))
        ledger.fault("cable cut")
        host.set_cable("down")
        time.sleep(rng.random() * _LONGEST)
        host.set_cable("up")

    def slow(self, rng: Random, orchestrator: Orchestrator, ledger: Ledger) -> None:
        """A host can send little for a while, and loses what waits for too long."""
        ledger.fault("network slowed")
        with rng.choice((self.far, self.away)).slowed(rng.choice(_RATES)):
            time.sleep(rng.random() * _LONGEST)

    def lose(self, rng: Random, orchestrator: Orchestrator, ledger: Ledger) -> None:
        """Packets are lost for a while."""
        ledger.fault("packets lost")
        with self.away.carrying(lost=rng.choice((0.01, 0.05, 0.2))):
            time.sleep(rng.random() * _LONGEST)

    def delay(self, rng: Random, orchestrator: Orchestrator, ledger: Ledger) -> None:
        """Packets are late for a while, sometimes by more than the hosts are patient."""
        ledger.fault("packets delayed")
        with self.away.carrying(delay=rng.choice((0.01, 0.1, 1.2 * SILENCE))):
            time.sleep(rng.random() * _LONGEST)
