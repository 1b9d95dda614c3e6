"""Samples: the requests of one level of load, as they end."""

from __future__ import annotations

import time
from array import array
from collections import Counter

from .reference import Reference
from .targets.reply import RequestFailed
from .targets.target import BenchClient


class Samples:
    """The requests that were due after `begin`, as they end; times are of the monotonic clock."""

    def __init__(self, reference: Reference) -> None:
        self.begin = float("inf")
        self.latencies = array("d")
        """Seconds from the moment when a request was due to its answer."""

        self.ends = array("d")
        """When each of them was answered."""

        self.lags = array("d")
        """Seconds by which the requests of an open loop were begun late."""

        self.failed = Counter[str]()
        self.sentences: dict[str, str] = {}
        """The first sentence of each class of failures, and of wrong answers."""

        self.wrong = 0
        self._reference = reference

    async def ask(self, connection: BenchClient, due: float, timeout: float) -> bool:
        """Send a request that is due, which has `timeout` seconds from then on; whether it was
        answered.
        """
        sent = time.monotonic()
        try:
            left = timeout - (sent - due)
            if left <= 0:
                raise RequestFailed("timeout", f"was not sent within {timeout:g} s.")
            reply = await connection.ask(left)
            ended = time.monotonic()
            fault = self._reference.fault(reply)
        except RequestFailed as error:
            if due >= self.begin:
                self.failed[error.kind] += 1
                self.sentences.setdefault(error.kind, str(error))
            return False
        if due >= self.begin:
            self.latencies.append(ended - due)
            self.ends.append(ended)
            if fault:
                self.wrong += 1
                self.sentences.setdefault("wrong", fault)
        return True
