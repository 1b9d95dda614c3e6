"""Told health: the readiness of models as the process of the orchestrator tells it."""

from __future__ import annotations

import time
from collections.abc import Callable

from .messages import Health

_STALE = 2.0
"""Seconds after which its silence means that it would not answer a request either."""


class ToldHealth:
    """The last word about the models. See ModelHealth."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told = Health([], [], False, False)
        self._answering: frozenset[tuple[str, int]] = frozenset()
        self._when = clock()

    def tell(self, health: Health) -> None:
        """Take the next word."""
        self._told = health
        self._answering = frozenset(health.answering)
        self._when = self._clock()

    def ready(self, model: str, version: int | None = None) -> bool:
        """See ModelHealth."""
        if version is None:
            return self._fresh and model in self._told.models
        return self._fresh and (model, version) in self._answering

    def all_ready(self) -> bool:
        """See ModelHealth."""
        return self._fresh and self._told.ready

    @property
    def _fresh(self) -> bool:
        return self._clock() - self._when < _STALE
