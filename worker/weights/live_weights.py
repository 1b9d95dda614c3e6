"""The weights of a model that are shared between processes or change while it runs, wherever they come from."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from ...comm.rank import Rank
from ...comm.sharing.gpu import Gpu
from ..plan import Plan
from .agreement import Agreement
from .control import Edition
from .seats import Seats
from .store import Store


class LiveWeights(Protocol):
    """One model's weights, over all the programs that are made of it one after the other."""

    store: Store
    device: str
    """Where its programs run, by a name that every process gives it; set before the first is made."""

    gpu: Gpu | None
    """The GPU, where that is one; likewise."""

    @property
    def version(self) -> int:
        """How many updates are in effect."""

    @property
    def opened(self) -> bool:
        """Whether `open` was called."""

    def open(self, plan: Plan, memory: Mapping[str, memoryview], rank: Rank) -> None:
        """Have the weights of `plan`; once. `memory` has the plain text of encrypted files."""

    def hold(self, agreement: Agreement | None) -> AbstractContextManager[Edition]:
        """The edition to compute with, unchanged meanwhile; the same on all ranks that agree."""

    def seat(self, seats: Seats) -> AbstractContextManager[Edition]:
        """Meanwhile `seats` are made, for this edition; from then on they are the ones that compute."""

    def close(self) -> None:
        """Share them no more."""
