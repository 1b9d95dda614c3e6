"""Simulated clients: send requests at random moments, and check every outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from rankmesh.comm.serving.caller_slots import NO_SLOT
from rankmesh.orchestrator.requests.request import AnyResult, Request

from .agent import SIZE
from .deployment import Deployment


@dataclass
class Outcomes:
    """What became of the requests that were `sent`; `ended` counts outcomes by request.

    `errors` are by class; `seconds` are of the answered ones.
    """

    sent: int = 0
    answered: int = 0
    wrong: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    ended: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """Whether every request has an outcome."""
        return len(self.ended) == self.sent

    @property
    def right(self) -> bool:
        """Whether each has exactly one outcome, and no answer was wrong."""
        return self.done and not self.twice and not self.wrong

    @property
    def twice(self) -> int:
        """How many requests have more than one outcome."""
        return sum(count > 1 for count in self.ended.values())


class _SimulatedRequest(Request):
    """A request whose end is noted."""

    awake = True

    def __init__(self, note: Callable[[Request], None]) -> None:
        self._note = note

    def set_result(self, result: AnyResult) -> None:
        """See Request.set_result."""
        super().set_result(result)
        self._note(self)

    def set_exception(self, error: BaseException) -> None:
        """See Request.set_exception."""
        super().set_exception(error)
        self._note(self)


class Load:
    """Requests by a Poisson process.

    With `at_slot` answers wake the clients as they wake a server's loop: at one caller slot.
    """

    def __init__(self, deployment: Deployment, rate: float, at_slot: bool = False) -> None:
        """`rate` is in requests per second."""
        self.outcomes = Outcomes()
        self._deployment = deployment
        self._loop = deployment.loop
        self._mean = 1 / rate
        self._slot = NO_SLOT
        self._left = 0
        if at_slot:
            slots = deployment.slots
            self._slot = slots.take()
            self._loop.watch(slots.watch(self._slot), self._collect)

    def run(self, requests: int, within: float) -> Outcomes:
        """Send `requests` and wait until all have ended, at most `within` seconds."""
        self._left = requests
        self.outcomes = Outcomes(sent=requests)
        self._await_next()
        self._loop.turn_until(
            lambda: not self._left and self.outcomes.done, self._deployment.clock.now + within
        )
        return self.outcomes

    def _await_next(self) -> None:
        if self._left:
            self._left -= 1
            self._loop.simulate(self._deployment.cluster.chance.drawn(self._mean), self._send)

    def _send(self) -> None:
        number = self._left
        request = _SimulatedRequest(partial(self._note, number, self._deployment.clock.now))
        given = [np.full(SIZE, number, np.float32)]
        client = self._deployment.client
        self._loop.meter.inside(lambda: client.submit_at(self._slot, request, given, None, 0))
        self._await_next()

    def _collect(self) -> None:
        self._deployment.slots.acknowledge(self._slot)
        self._deployment.client.collect_at(self._slot)

    def _note(self, number: int, begun: float, outcome: Request) -> None:
        self._loop.meter.outside(lambda: self._check(number, begun, outcome))

    def _check(self, number: int, begun: float, outcome: Request) -> None:
        self.outcomes.ended[number] += 1
        try:
            found = outcome.result()["y"]
        except Exception as error:
            self.outcomes.errors[type(error).__name__] += 1
            return
        self.outcomes.answered += 1
        self.outcomes.wrong += not np.array_equal(found, np.full(SIZE, 2 * number, np.float32))
        self.outcomes.seconds.append(self._deployment.clock.now - begun)
