"""Helper threads of torch: each thread that computes starts some of its own, by OpenMP."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import torch

from ..affinity import bound_to

_PARALLEL = 1 << 17
"""Elements that torch adds on several threads."""
_started = threading.local()


def start_helpers(cores: Sequence[int]) -> None:
    """Start the helpers of the calling thread, where it has none yet, on `cores`.

    They would have the cores of the thread that starts them, which is bound to one of these.
    """
    if not getattr(_started, "helpers", False):
        _started.helpers = True
        with bound_to(cores):
            torch.ones(_PARALLEL).add_(1)
