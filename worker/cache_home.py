"""The user's cache folder: where Rankmesh keeps things for the user of the process, unless told another place."""

from __future__ import annotations

import os

from ..comm.errors import UsageError


def cache_home() -> str:
    """`rankmesh` in XDG_CACHE_HOME, by default in ~/.cache; UsageError where the user has no home folder."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if base.startswith("~"):
        raise UsageError(f"user {os.getuid()} has no home folder: HOME is not set, and there is no such account. Set "
                         f"HOME or XDG_CACHE_HOME to a folder of yours.")
    return os.path.join(base, "rankmesh")
