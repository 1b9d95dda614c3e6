"""The user's own folder for sockets: 0700, and nobody else's."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress

from .errors import UsageError
from .own_folder import require_trusted_owners

_LONGEST = 64
"""A socket's path has 108 bytes; the rest is for its name."""


def runtime_dir() -> str:
    """The folder, made if missing: under XDG_RUNTIME_DIR where that may be used, else the temporary folder.

    Raises UsageError where it cannot be made, it or a folder on the way to it belongs to another user, or others may
    enter it.
    """
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    if not os.access(base, os.W_OK | os.X_OK):
        base = _temporary()
    require_trusted_owners(base, "the folder for the sockets of ranks",
                           "Set XDG_RUNTIME_DIR to a folder of yours, or to nothing for the temporary folder.")
    path = os.path.join(base, f"rankmesh-{os.getuid()}")
    if len(os.fsencode(path)) > _LONGEST:
        raise UsageError(f"{path} is longer than {_LONGEST} bytes, too long for sockets in it. Set XDG_RUNTIME_DIR to "
                         f"a folder with a shorter path.")
    status = _made(path)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
        raise UsageError(f"{path} must be a folder of user {os.getuid()} that nobody else may enter (mode 0700); it "
                         f"has owner {status.st_uid}, mode {stat.S_IMODE(status.st_mode):o}. Remove it, or set "
                         f"XDG_RUNTIME_DIR.")
    return path


def _temporary() -> str:
    try:
        return tempfile.gettempdir()
    except FileNotFoundError as error:
        raise UsageError("there is no folder for the sockets of ranks: neither XDG_RUNTIME_DIR nor a temporary folder "
                         "may be written. Set XDG_RUNTIME_DIR to a folder of yours.") from error


def _made(path: str) -> os.stat_result:
    """What the folder is, made if missing; looking first, which is quick where it is there."""
    with suppress(FileNotFoundError):
        return os.lstat(path)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass  # another process was faster; whose it is, is checked by the caller
    except OSError as error:
        raise UsageError(f"{path}, where the ranks meet, cannot be made: {error.strerror}. Set XDG_RUNTIME_DIR to a "
                         f"folder of yours.") from error
    return os.lstat(path)
