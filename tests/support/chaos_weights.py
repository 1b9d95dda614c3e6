"""An actor that updates the weights of model `weighed`, and one that looks which of them its
answers are made of.
"""

from __future__ import annotations

import time
from random import Random

import numpy as np
from chaos import Ledger
from served_models import WEIGHTS

from rankmesh import Orchestrator, RankFailed, RankmeshError

_MODEL, _RANKS = "weighed", 2
_POWERS = 64
_X = np.ones((2, 16), np.float32)


class Updates:
    """The update number n sets all weights to 2 ** (n % 64): what ranks of two versions sum is no
    such number.
    """

    def __init__(self) -> None:
        self.done = self.started = 0

    def update(self, rng: Random, orchestrator: Orchestrator, ledger: Ledger) -> None:
        """One more; where ranks die of it again and again, all is as before."""
        time.sleep(rng.random() * 0.5)
        self.started += 1
        value = np.float32(2.0 ** (self.started % _POWERS))
        try:
            orchestrator.update_weights(
                {name: np.full(shape, value) for name, shape in WEIGHTS.items()}, model=_MODEL
            )
        except RankFailed:
            ledger.count("updates given up")
            self.started -= 1
        else:
            ledger.count("updates")
            self.done = self.started

    def ask(self, rng: Random, orchestrator: Orchestrator, ledger: Ledger) -> None:
        """One request, whose answer is of one version, and of none older than the last update
        before it.
        """
        least = self.done
        ledger.count("accepted")
        try:
            answer = orchestrator.predict(_X, model=_MODEL)
        except RankmeshError as error:
            ledger.count("failed")
            ledger._judge(error, "")
            return
        ledger.count("answered")
        found = {
            float(value)
            for name, times in (("y", 17), ("z", 16))
            for value in np.unique(answer[name] / (times * _RANKS))
        }
        if found not in [{2.0 ** (number % _POWERS)} for number in range(least, self.started + 1)]:
            ledger.complain(
                f"an answer has the weights {found} between the updates {least} and {self.started}"
            )
