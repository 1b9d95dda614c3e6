"""How a forked child of a process that has loaded onnxruntime ends."""

from __future__ import annotations

import ctypes
import os

_libc = ctypes.CDLL(None)


def let_forked_children_end() -> None:
    """Have the forked children of this process leave out what C libraries do at exit; to be called once.

    There onnxruntime waits for threads that it started when it was loaded, and that only the parent has: a child that
    ended by itself, by the end of its program or sys.exit, hung for ever. Python's own end (atexit, output) is not
    left out. Only glibc has on_exit, and onnxruntime's wheels are for glibc.
    """
    if hasattr(_libc, "on_exit"):
        os.register_at_fork(after_in_child=_exit_first)


def _exit_first() -> None:
    """The handler that is registered last runs first, and is given the status: `_exit` leaves nothing to the others."""
    _libc.on_exit(_libc._exit, None)
