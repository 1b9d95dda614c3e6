"""Which model a file holds: the hash of its bytes, remembered by what the file system says about the file."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

_SETTLED_NS = 2_000_000_000
"""A file changed later than this before it is hashed may change again within one tick of the file system's clock."""

_BLOCK = 1 << 20


class Stamp(msgspec.Struct, frozen=True):
    """What changes when a file does: place, size in bytes and times in nanoseconds."""

    path: str
    device: int
    inode: int
    size: int
    modified: int
    changed: int

    @classmethod
    def of(cls, path: str) -> Stamp:
        """The stamp of a file as it is now; OSError where there is none."""
        path = os.path.realpath(path)
        status = os.stat(path)
        return cls(path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


class Identity(msgspec.Struct, frozen=True):
    """The files of one model, the main one first, and the hash (BLAKE2b, hex) of all their bytes."""

    stamps: tuple[Stamp, ...]
    digest: str

    @property
    def holds(self) -> bool:
        """Whether all files are still what they were."""
        try:
            return all(Stamp.of(stamp.path) == stamp for stamp in self.stamps)
        except OSError:
            return False


class Identities:
    """The identities that were worked out before, in a folder: one small file per model."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def known(self, path: str) -> Identity | None:
        """The identity of the model at `path` if it was worked out before and no file has changed since."""
        try:
            identity = msgspec.msgpack.decode(self._place(path).read_bytes(), type=Identity)
        except (OSError, msgspec.DecodeError):
            return None
        return identity if identity.holds and identity.stamps[0] == Stamp.of(path) else None

    def learn(self, paths: Sequence[str]) -> Identity | None:
        """Hash the files of a model, the main one first, and remember it; None where one changes meanwhile.

        Waits until the youngest change is two seconds old, so that a later one shows in the file's times.
        """
        stamps = tuple(Stamp.of(path) for path in paths)
        age = time.time_ns() - max(max(stamp.modified, stamp.changed) for stamp in stamps)
        time.sleep(max(0, min(_SETTLED_NS - age, _SETTLED_NS)) / 1e9)
        identity = Identity(stamps, _digest(paths))
        if not identity.holds:
            return None
        self._remember(identity)
        return identity

    def _remember(self, identity: Identity) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        place = self._place(identity.stamps[0].path)
        fresh = place.with_suffix(f".{threading.get_native_id()}")
        fresh.write_bytes(msgspec.msgpack.encode(identity))
        fresh.replace(place)

    def _place(self, path: str) -> Path:
        from hashlib import blake2b  # here and below: it loads OpenSSL, and most ranks have no cache

        name = blake2b(os.fsencode(os.path.realpath(path)), digest_size=16).hexdigest()
        return self._folder / f"{name}.msgpack"


def _digest(paths: Sequence[str]) -> str:
    from hashlib import blake2b

    total = blake2b(digest_size=32)
    for path in paths:
        with open(path, "rb") as file:
            total.update(os.fstat(file.fileno()).st_size.to_bytes(8, "little"))
            while block := file.read(_BLOCK):
                total.update(block)
    return total.hexdigest()
