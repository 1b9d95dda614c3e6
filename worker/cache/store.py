"""Cache store: a folder of entries that appear whole or not at all, evicted oldest first."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from ...comm.errors import UsageError
from ...comm.host.own_folder import make_own_folder
from .manifest import MANIFEST, CacheEntry, Manifest
from .received_files import ReceivedFiles

_ENTRIES, _WRITING, _GONE = "entries", "writing-", "gone-"
IDENTITIES, _RECEIVED = "identities", "received"
_TO_LOCK = 60.0
"""Seconds that a writer may take from making its folder to locking it."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_INSTEAD = (
    "Name another folder (RANKMESH_CACHE or model_cache_dir), or turn it off (RANKMESH_CACHE=off)."
)


class CacheStore:
    """A folder of entries that only its owner may enter; any number of processes may use it at
    once.
    """

    def __init__(self, folder: str | os.PathLike[str], limit: int) -> None:
        """`limit` is the size in bytes above which the entries unused for longest go; a folder may
        begin with `~`.

        Raises UsageError where the folder cannot be made, or is not the user's alone
        (comm/host/own_folder.py): what lies in it is executed.
        """
        path = os.path.expanduser(folder)
        if path.startswith("~"):
            raise UsageError(f"the model cache {path}: there is no such home folder. {_INSTEAD}")
        self.folder = Path(path).absolute()
        self.limit = limit
        for name in ("", _ENTRIES, IDENTITIES):
            make_own_folder(str(self.folder / name), "the model cache", _INSTEAD)
        self.received = ReceivedFiles(self.folder / _RECEIVED)

    @property
    def free(self) -> int:
        """Bytes that the file system has left for the folder; 0 where the folder is gone."""
        try:
            return shutil.disk_usage(self.folder).free
        except OSError:
            return 0

    def find(self, key: str) -> Path | None:
        """The folder of the complete entry `key`, which counts as used from now; None where there
        is none.
        """
        entry = CacheEntry.at(self.folder / _ENTRIES / key)
        if entry is None:
            return None
        with suppress(OSError):  # evicted meanwhile: the caller finds out when it opens a file
            os.utime(entry.path / MANIFEST)
        return entry.path

    def add(self, key: str, source: str, write: Callable[[Path], None]) -> bool:
        """Let `write` fill a new folder and make it the entry `key`.

        Returns False, with nothing written, where the entry exists or another process is writing
        it. Errors of `write` are passed on, and leave no files.
        """
        self.sweep()
        final = self.folder / _ENTRIES / key
        folder = self.folder / f"{_WRITING}{key}"
        folder.mkdir(mode=0o700, exist_ok=True)
        lock = _lock(folder)
        if lock is None:
            return False
        try:
            if CacheEntry.at(final) is not None:
                _remove(folder)
                return False
            self._write(folder, final, source, write)
        finally:
            os.close(lock)
        self._evict()
        return True

    def wait(self, key: str) -> None:
        """Wait while another process writes the entry `key`."""
        with suppress(FileNotFoundError):
            handle = os.open(self.folder / f"{_WRITING}{key}", _FOLDER)
            try:
                fcntl.flock(handle, fcntl.LOCK_SH)
            finally:
                os.close(handle)

    def discard(self, path: Path) -> bool:
        """Take an entry away at once, then free it; False where it stays, as the folder may only be
        read.
        """
        gone = self.folder / f"{_GONE}{os.getpid()}-{time.monotonic_ns()}"
        try:
            path.rename(gone)
        except FileNotFoundError:  # another process was first
            return True
        except OSError:
            return False
        _remove(gone)
        self.received.sweep()
        return True

    def discard_unused(self, path: Path) -> bool:
        """Discard an entry, unless a process holds it, as `SlicedModel` does; False where it
        stays.
        """
        lock = _lock(path)
        if lock is None:
            return not path.exists()
        try:
            return self.discard(path)
        finally:
            os.close(lock)

    def paths(self) -> list[Path]:
        """The folders of all entries, damaged ones too."""
        return list((self.folder / _ENTRIES).iterdir())

    def entries(self) -> list[CacheEntry]:
        """All complete entries, the one used last first."""
        found = (CacheEntry.at(path) for path in self.paths())
        return sorted(
            (entry for entry in found if entry), key=lambda entry: entry.used, reverse=True
        )

    def clear(self) -> int:
        """Remove all entries that no process holds; returns their number. Processes that have one
        open keep what they mapped.
        """
        self.sweep()
        self.received.sweep(0.0)
        return sum(map(self.discard_unused, self.paths()))

    def _write(self, folder: Path, final: Path, source: str, write: Callable[[Path], None]) -> None:
        try:
            for left in folder.iterdir():  # by a writer that was killed
                _remove(left) if left.is_dir() else left.unlink()
            write(folder)
            manifest = Manifest.of(source, folder)
            if manifest.size > self.limit:  # no room could be made, and all others would go in vain
                raise OSError(
                    f"it takes {-(-manifest.size // 2**20)} MiB, and the cache has "
                    f"{self.limit >> 20} MiB at most (RANKMESH_CACHE_SIZE)"
                )
            (folder / MANIFEST).write_bytes(msgspec.json.encode(manifest))
            if final.exists():  # damaged, or it would have been found
                self.discard(final)
            folder.rename(final)
        except BaseException:
            _remove(folder)
            raise

    def _evict(self) -> None:
        for path in self.paths():
            if CacheEntry.at(path) is None:  # damaged: `find` leaves it out
                self.discard(path)
        total = 0
        for entry in self.entries():
            total += entry.manifest.size
            if total > self.limit:
                self.discard_unused(entry.path)

    def sweep(self) -> None:
        """Remove the folders that killed writers and removers left."""
        for path in self.folder.iterdir():
            if path.name.startswith((_WRITING, _GONE)) and not _just_made(path):
                lock = _lock(path)
                if lock is not None:
                    _remove(path)
                    os.close(lock)
        self.received.sweep()


def _just_made(folder: Path) -> bool:
    """Whether a folder is empty and new: its writer may be about to lock it."""
    with suppress(OSError):  # removed meanwhile
        return time.time() - folder.stat().st_mtime < _TO_LOCK and not any(folder.iterdir())
    return True


def _lock(folder: Path) -> int | None:
    """An open, locked descriptor of `folder`, which the kernel releases when its holder dies; None
    if it is taken.
    """
    try:
        handle = os.open(folder, _FOLDER)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(handle), os.stat(folder)):
            return handle
    except OSError:  # locked by another process, or renamed by it meanwhile
        pass
    os.close(handle)
    return None


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
