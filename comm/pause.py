"""Looking at memory again and again without slowing whoever shares the core."""

from __future__ import annotations

from functools import partial

import numpy as np

_ONES, _ROOTS = np.ones(256), np.empty(256)

pause = partial(np.sqrt, _ONES, _ROOTS)
"""About half a microsecond in the divider, which leaves the core's other thread (SMT) nearly all of the core.

Python has no pause instruction, and an empty loop takes a good third of the speed from the process on the other thread,
which is often the one waited for. The interpreter's lock is kept.
"""
