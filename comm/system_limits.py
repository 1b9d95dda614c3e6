"""Limits of the system: one sentence for each error of the system that tells of one."""

from __future__ import annotations

import errno
import resource

MORE_FILES = "raise its limit of open files (ulimit -n; LimitNOFILE= of systemd)"


def limit_reached(error: OSError) -> str:
    """The sentence for an error that a limit of the system has caused; "" for another error."""
    place = f" for {error.filename}" if error.filename else ""
    match error.errno:
        case errno.EMFILE:
            most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            return f"this process may have {most} open files, and needs more: {MORE_FILES}."
        case errno.ENFILE:
            return "the host has as many open files as it allows: raise fs.file-max."
        case errno.EFBIG:
            most = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
            return (
                f"this process may write {most} bytes to a file or to shared memory, and needs "
                f"more{place}: raise its limit (ulimit -f; LimitFSIZE= of systemd)."
            )
        case errno.ENOSPC | errno.EDQUOT:
            return f"no space is left{place}: free some, or name another folder."
    return ""
