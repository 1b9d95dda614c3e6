"""Configuration of the server: tells which models a YAML file, or repositories, have now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..config.settings import ServedSettings


class Configuration(Protocol):
    """Models that may be served. Each call reads files, and raises UsageError for their faults."""

    def models(self) -> Sequence[ServedSettings]:
        """All models, each of its versions after lower ones."""

    def model(self, name: str) -> Sequence[ServedSettings] | None:
        """One model, likewise: empty where there is none of this name.

        None where single models cannot be read again: they are as they last were.
        """
