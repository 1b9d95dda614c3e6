"""Supervised process: describes the process of a rank, on this host or another, to events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ..job.rank import Rank


class SupervisedProcess(Protocol):
    """The process of one rank."""

    @property
    def rank(self) -> Rank:
        """The rank that it runs."""

    @property
    def pid(self) -> int:
        """Its number on its host."""

    @property
    def place(self) -> str:
        """The device as errors name it; "" for the host's processors."""

    @property
    def last_lines(self) -> Iterable[str]:
        """The lines that it wrote last."""

    @property
    def stopped(self) -> bool:
        """Whether a signal or a debugger has stopped it."""

    def epitaph(self) -> str:
        """How it ended, or is ending, as the end of a sentence."""
