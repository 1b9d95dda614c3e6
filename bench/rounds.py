"""Rounds in which contenders take turns; what other processes disturbed is measured again."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

Result = TypeVar("Result")
_SHARE = 0.05
_PATIENCE = 120.0
_PAUSE = 0.3


def interleaved(
    contenders: Mapping[str, Callable[[], Result]], rounds: int
) -> dict[str, list[Result]]:
    """Every contender's results, one per round; all take turns, and each round another one
    begins."""
    results: dict[str, list[Result]] = {name: [] for name in contenders}
    names = list(contenders)
    for number in range(rounds):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            results[name].append(undisturbed(contenders[name]))
    return results


def undisturbed(measure: Callable[[], Result]) -> Result:
    """What `measure` gives while other processes take less than a twentieth of the machine.

    It must wait for the processes that it starts. After two minutes of trying the last result is
    taken, with a line that says so.
    """
    end = time.monotonic() + _PATIENCE
    while True:
        _wait_for_quiet(end)
        watch = Watch()
        result = measure()
        share = watch.foreign()
        if share < _SHARE:
            return result
        if time.monotonic() > end:
            print(
                f"note: measured while other processes took {share:.0%} of the machine",
                file=sys.stderr,
            )
            return result


class Watch:
    """How much of the machine's time went to processes that are not ours, from its creation on."""

    def __init__(self) -> None:
        self._busy, self._all = _machine()
        self._own = _own()

    def foreign(self) -> float:
        """The share so far, of all cores' time."""
        busy, total = _machine()
        others = busy - self._busy - (_own() - self._own)
        return max(0.0, others) / max(total - self._all, 1e-9)


def _wait_for_quiet(end: float) -> None:
    while time.monotonic() < end:
        watch = Watch()
        time.sleep(_PAUSE)
        if watch.foreign() < _SHARE:
            return


def _machine() -> tuple[float, float]:
    """Busy and all seconds of all cores since boot."""
    with open("/proc/stat") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]
    per_second = os.sysconf("SC_CLK_TCK")
    return (sum(ticks) - ticks[3] - ticks[4]) / per_second, sum(ticks) / per_second


def _own() -> float:
    """Seconds that this process and the children it waited for have used."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
