"""Current core: the core that runs this thread."""

from __future__ import annotations

import ctypes

current_core = ctypes.CDLL(None).sched_getcpu
"""The number of the core, by `sched_getcpu(3)`; another thread may run there by then."""

current_core.restype = ctypes.c_uint
