"""Received files: keeps the files of other hosts by digest, and parts that are to be continued.

A file is partial until all files of its model are there. Then the entry of the model has it, and a
second name here by which other models find it.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ...comm.digest import blake2b
from ...comm.errors import ModelError
from ...comm.host.regular_file import open_regular
from ...comm.transfer.messages import OfferedFile

_PARTIAL = ".partial"
_KEPT = 24 * 3600.0
"""Seconds for which a part of a file waits for its rest."""

_BLOCK = 1 << 20
Fetch = Callable[[int], Iterator[bytes]]
"""The bytes of a file from an offset on, as they arrive."""


class ReceivedFiles:
    """A private folder of files that are named by their digests, never by their sender.

    It is made when the first one comes.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def missing(self, file: OfferedFile) -> int:
        """The bytes of a file that are still to be fetched."""
        sizes = (_size(path) for path in (self._whole(file), self._partial(file)))
        return max(0, file.size - max(sizes))

    def place(self, file: OfferedFile, target: Path, fetch: Fetch) -> None:
        """Have all bytes of a file, with the digest that was offered, at `target` too.

        `fetch` gives those that are missing. Another process that fetches the file is waited for.
        The part of a cut transfer is continued, and fetched anew where its bytes were damaged.
        Raises ModelError for other bytes than were offered, OSError as for a full disk.
        """
        self._folder.mkdir(mode=0o700, exist_ok=True)
        with suppress(FileNotFoundError):
            os.link(self._whole(file), target)  # first, as the name here may be removed meanwhile
            if digest_of(target) == file.digest:
                return
            target.unlink()
            self._whole(file).unlink(missing_ok=True)
        with self._locked(file) as fd:
            if _digest_of_all(fd, file, fetch) == file.digest:
                os.link(self._partial(file), target)
                return
            self._partial(file).unlink(missing_ok=True)
        raise ModelError(
            f"{file.name}: what was sent does not have the digest that was offered: the file "
            "changed meanwhile, or memory or a disk fails. Nothing of it is kept. Start the model "
            "again."
        )

    def settle(self, file: OfferedFile) -> None:
        """Note that an entry has the file: it is kept as long as that."""
        with suppress(FileNotFoundError):  # it was whole before
            self._partial(file).rename(self._whole(file))

    def sweep(self, kept: float = _KEPT) -> None:
        """Remove files that no entry has any more, and parts that waited `kept` seconds."""
        for path in self._folder.glob("*"):  # none without the folder
            with suppress(OSError):  # removed by another process, or in use
                status = path.stat()
                if path.suffix != _PARTIAL:
                    removable = status.st_nlink == 1
                else:
                    removable = time.time() - status.st_mtime >= kept
                if removable:
                    _remove_unused(path)

    def _whole(self, file: OfferedFile) -> Path:
        return self._folder / file.digest

    def _partial(self, file: OfferedFile) -> Path:
        return self._folder / f"{file.digest}{_PARTIAL}"

    @contextmanager
    def _locked(self, file: OfferedFile) -> Iterator[int]:
        """A descriptor of the partial file, which this process alone writes."""
        path = self._partial(file)
        while True:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX)
                if _is_at(fd, path):  # else removed or moved while it was waited for
                    yield fd
                    return
            finally:
                os.close(fd)


def digest_of(path: Path) -> str:
    """The digest of a file, as messages have it. Raises OSError."""
    with open_regular(str(path)) as file:
        return _digest(file.fileno(), os.fstat(file.fileno()).st_size).hexdigest()


def _digest_of_all(fd: int, file: OfferedFile, fetch: Fetch) -> str:
    """The digest of a partial file once its missing bytes, or other bytes instead, are there."""
    status = os.fstat(fd)
    if status.st_nlink > 1:  # whole, and in a model already: written no more
        return _digest(fd, status.st_size).hexdigest()
    had = min(status.st_size, file.size)
    found = _completed(fd, had, fetch)
    return _completed(fd, 0, fetch) if found != file.digest and had else found


def _completed(fd: int, had: int, fetch: Fetch) -> str:
    """Keep `had` bytes of a file, add those that are fetched, and return the digest of all."""
    os.ftruncate(fd, had)
    digest = _digest(fd, had)
    for data in fetch(had):
        _write(fd, data, had)
        digest.update(data)
        had += len(data)
    return digest.hexdigest()


def _digest(fd: int, size: int) -> blake2b:
    digest, offset = blake2b(digest_size=32), 0
    while offset < size and (block := os.pread(fd, min(_BLOCK, size - offset), offset)):
        digest.update(block)
        offset += len(block)
    return digest


def _write(fd: int, data: bytes, offset: int) -> None:
    left = memoryview(data)
    while left:
        written = os.pwrite(fd, left, offset)
        left, offset = left[written:], offset + written


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def _remove_unused(path: Path) -> None:
    """Remove a file unless a process holds its lock. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    finally:
        os.close(fd)
