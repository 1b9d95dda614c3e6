"""Programs in a user and mount namespace of their own, where a test may mount what it wants."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from collections.abc import Sequence

import pytest


@functools.cache
def _reason() -> str:
    """Why there can be no such namespace here; "" where there can."""
    if shutil.which("unshare") is None:
        return "needs unshare"
    command = mounted(["mount -t tmpfs none /mnt"], [sys.executable, "-c", ""])
    tried = subprocess.run(command, capture_output=True, text=True)
    return f"needs user and mount namespaces: {tried.stderr.strip()}" if tried.returncode else ""


def require_namespaces() -> None:
    """Skip the test, with the reason, where the system allows no such namespace."""
    if _reason():
        pytest.skip(_reason())


def mounted(mounts: Sequence[str], command: Sequence[str]) -> list[str]:
    """A command line that runs `command` once the shell lines `mounts` have mounted something, for
    it alone.
    """
    script = "\n".join(["set -e", *mounts, 'exec "$@"'])
    return ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", *command]
