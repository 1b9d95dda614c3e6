"""The user's own folder for sockets: 0700, and nobody else's."""

from __future__ import annotations

import os
import stat
import tempfile

from .errors import UsageError


def runtime_dir() -> str:
    """The folder, made if missing: under XDG_RUNTIME_DIR, else the temporary folder.

    Raises UsageError where it belongs to somebody else or others may enter it.
    """
    base = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    path = os.path.join(base, f"rankmesh-{os.getuid()}")
    os.makedirs(path, 0o700, exist_ok=True)
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
        raise UsageError(f"{path} must be a folder of user {os.getuid()} that nobody else may enter (mode 0700); it "
                         f"has owner {status.st_uid}, mode {stat.S_IMODE(status.st_mode):o}. Remove it, or set "
                         f"XDG_RUNTIME_DIR.")
    return path
