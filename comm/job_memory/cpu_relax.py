"""CPU relax: a pause between looks at memory that spares the core's other thread."""

from __future__ import annotations

from functools import partial

import numpy as np

_ONES, _ROOTS = np.ones(256), np.empty(256)

cpu_relax = partial(np.sqrt, _ONES, _ROOTS)
"""Pause for about half a microsecond, in the divider of the core.

The core's other thread (SMT) keeps nearly all of the core. Python has no pause instruction, and an
empty loop takes a good third of the speed from the other thread. That thread often runs the rank
which is waited for. The interpreter's lock is kept.
"""
