"""Turns of a load generator: it waits for a line on its standard input, then measures once.

A load generator is a process of its own, which is started once and waits between its turns.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

Call = Callable[[], float]
"""One request and the check of its reply; gives the seconds that it took without the check."""


def take_turns(measure: Callable[[], list[float]]) -> None:
    """For each line of standard input: measure, and print the requests, the wall time of all of
    them and the median of their seconds.

    `measure` gives the seconds of each request.
    """
    print("{}", flush=True)
    for _ in sys.stdin:
        begun = time.monotonic()
        seconds = measure()
        wall = time.monotonic() - begun
        found = {"requests": len(seconds), "wall": wall, "median": statistics.median(seconds)}
        print(json.dumps(found), flush=True)


def take_turns_in_threads(clients: Sequence[AbstractContextManager[Call]], seconds: float) -> None:
    """Each turn: all clients send requests for so many seconds. A client has a thread of its own,
    which opens it, calls it in all turns and closes it.
    """
    threads = [ThreadPoolExecutor(1) for _ in clients]
    pairs = list(zip(threads, clients, strict=True))
    calls = [thread.submit(client.__enter__).result() for thread, client in pairs]

    def measure() -> list[float]:
        end = time.monotonic() + seconds
        found = [
            thread.submit(repeated, call, end) for thread, call in zip(threads, calls, strict=True)
        ]
        return [one for each in found for one in each.result()]

    try:
        take_turns(measure)
    finally:
        for thread, client in pairs:
            thread.submit(client.__exit__, None, None, None).result()


def repeated(call: Call, end: float) -> list[float]:
    """Call until this moment of the monotonic clock; the seconds of each."""
    found = [call()]
    while time.monotonic() < end:
        found.append(call())
    return found
