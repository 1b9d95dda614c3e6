"""Verification of cache entries: all on demand, or one in the background once a model uses it."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ...comm.loggers import LOG
from .manifest import CacheEntry, FileContent
from .store import CacheStore

_CHECKED = "checked"
VERIFICATION_DELAY = 5.0
"""Seconds from a build to its check: processes of one start are ready then, and short runs are
over.
"""

VERIFICATION_PAUSE = 0.025
"""Seconds between blocks of 3 ms: a check takes a tenth of a core, and little of the memory's
bandwidth.
"""

_INTERVAL = 24 * 3600.0
"""Seconds for which a check holds, in all processes that load the entry."""

_NICE = 19


class CacheFinding(NamedTuple):
    """An entry, its model, the file that is not what was written ("" where none), and whether the
    entry was removed.
    """

    path: Path
    source: str
    damaged: str
    removed: bool = False


def verify(store: CacheStore) -> Iterator[CacheFinding]:
    """Check all entries, whenever they were checked before. Damaged ones are removed."""
    for path in store.paths():
        entry = CacheEntry.at(path)
        if entry is None:
            yield CacheFinding(path, "", "manifest or size", store.discard(path))
            continue
        damaged = _damaged(entry, 0.0)
        if damaged is None:
            continue  # removed meanwhile
        if not damaged:
            with suppress(OSError):  # a folder that may only be read
                (path / _CHECKED).touch()
        yield CacheFinding(
            path, entry.manifest.source, damaged, bool(damaged) and store.discard(path)
        )


def verify_behind(store: CacheStore, path: Path, model: str) -> None:
    """Check the entry that `model` was just loaded from, some seconds later, by a thread of low
    priority.

    It does so once a day, whichever process comes first. A damaged entry is removed, and an error
    logged: the model may have computed from it. The end of the process does not wait.
    """
    threading.Thread(
        target=_verify_later, args=(store, path, model), name="rankmesh-cache-check", daemon=True
    ).start()


def _verify_later(store: CacheStore, path: Path, model: str) -> None:
    time.sleep(VERIFICATION_DELAY)
    os.setpriority(
        os.PRIO_PROCESS, threading.get_native_id(), _NICE
    )  # in Linux, of this thread alone
    entry, claim = CacheEntry.at(path), _claim(path / _CHECKED)
    if entry is None or claim is None:
        return
    try:
        damaged = _damaged(entry, VERIFICATION_PAUSE)
        if damaged:
            LOG.error(
                "%s: %s in its entry of the model cache (%s) is not what was written: a disk or "
                "memory fails, and what this process computes may be wrong. The entry is removed: "
                "build the model again.",
                model,
                damaged,
                path,
            )
            store.discard(path)
        elif damaged is not None:
            os.utime(claim)
    finally:
        os.close(claim)


def _damaged(entry: CacheEntry, pause: float) -> str | None:
    """The first file that is not what was written, "" where none is; None where the entry went
    meanwhile.
    """
    try:
        before = os.stat(entry.path).st_ino
        for name, content in entry.manifest.files.items():
            if FileContent.of(entry.path / name, pause) != content:
                return name if os.stat(entry.path).st_ino == before else None
    except OSError:
        return None
    return ""


def _claim(stamp: Path) -> int | None:
    """The open stamp of an entry that is due and that no other process checks now; None else.
    Closing gives it up.
    """
    try:
        fresh = time.time() - os.stat(stamp).st_mtime < _INTERVAL
    except FileNotFoundError:
        fresh = False
    try:
        handle = os.open(stamp, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:  # the entry is gone
        return None
    try:
        if not fresh:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.utime(handle, (0, 0))  # until it was checked
            return handle
    except OSError:
        pass
    os.close(handle)
    return None
