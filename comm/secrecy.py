"""Secrecy of a process that holds a key: neither a core file nor another process of its user shows its memory."""

from __future__ import annotations

import resource


def keep_secrets() -> None:
    """From now on this process leaves no core file, and only root may trace it or read its memory.

    The limit holds for its children too, and cannot be raised again. A handler of core files that the kernel pipes
    them to gets them in spite of the limit (core(5)), but none of an undumpable process.
    """
    from .sharing.undumpable import close_to_others  # few processes have keys

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    close_to_others()
