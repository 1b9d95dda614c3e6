"""One request, from its arrival to its answer."""

from __future__ import annotations

from collections.abc import Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True, eq=False)
class Request:
    """What a caller asked, and what has become of it; times are seconds of `time.monotonic`.

    A `deadline` of None is none. `attempts` counts how often it was given to ranks, `deaths` how often a rank died
    meanwhile. It may run together with requests of its `kind` (None: with none), and takes `rows` of a batch.
    """

    id: int
    inputs: Any
    future: Future[Any]
    submitted: float
    priority: int = 0
    deadline: float | None = None
    attempts: int = 0
    deaths: int = 0
    kind: Hashable = None
    rows: int = 1
