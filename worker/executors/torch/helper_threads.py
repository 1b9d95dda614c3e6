"""Helper threads of torch: each thread that computes starts some of its own, by OpenMP."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import torch

from ..affinity import bound_to

_PARALLEL = 1 << 17
"""Elements that torch adds on several threads."""
_started = threading.local()


def use_threads(threads: int, cores: Sequence[int]) -> None:
    """Compute with so many threads in the calling thread, which torch counts for each of its own.

    Helpers that the thread has not yet are started on `cores`, where given. They would have the
    cores of the thread that starts them, which is bound to one of these.
    """
    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)
    if cores and getattr(_started, "helpers", 0) < threads:
        _started.helpers = threads
        with bound_to(cores):
            torch.ones(_PARALLEL * threads).add_(1)
