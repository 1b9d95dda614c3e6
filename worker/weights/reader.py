"""This process's own turn at the weights: which generation a predict of it computes with."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ...comm.errors import UsageError
from ...comm.sharing.lease import Lease, become_reader


class Reader:
    """Holds generations by a lease; one thread of this process at a time."""

    def __init__(self, lease: Lease, word: memoryview) -> None:
        become_reader()
        self.lease, self._word, self._process = lease, word, os.getpid()

    @contextmanager
    def hold(self) -> Iterator[int]:
        """The current generation, which stays as it is meanwhile."""
        if os.getpid() != self._process:
            raise UsageError(f"process {self._process} built this model with shared or updatable weights, and this "
                             f"one was forked from it: build the model in each process.")
        with self.lease.hold(self._word) as generation:
            yield generation
