"""Secrecy of a process: no core file, no ptrace, no /proc/PID/mem or fd for other processes."""

from __future__ import annotations

import ctypes
import os
import resource


def keep_secrets() -> None:
    """Let this process leave no core file, and let only root trace it or read its memory.

    The limit holds for its children too, and cannot be raised again. A handler of core files that
    the kernel pipes them to gets them in spite of the limit (core(5)). It gets none of an
    undumpable process.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    close_to_others()


_SET_DUMPABLE = 4  # PR_SET_DUMPABLE, prctl(2)
_LIBC = ctypes.CDLL(None, use_errno=True)


CLOSED = {"RANKMESH_CLOSED": "1"}
"""The setting with which `import rankmesh` closes a process."""


def close_to_others() -> None:
    """Make this process undumpable. An exec opens it again.

    Call this before any shared memory is made or arrives. Until then every process of the same user
    reads it through /proc/PID/fd, and opened files stay open.
    """
    if _LIBC.prctl(_SET_DUMPABLE, 0, 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, f"this process cannot be made undumpable: {os.strerror(number)}")
