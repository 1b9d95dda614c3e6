"""Manifest of a cache entry: size and checksum of each file, which tell a single changed bit."""

from __future__ import annotations

import os
import time
import zlib
from pathlib import Path

import msgspec

from ...comm.decoding import guarded

MANIFEST = "manifest.json"
_BLOCK = 8 << 20


class FileContent(msgspec.Struct, frozen=True):
    """A file's size in bytes and the CRC-32 of its bytes, against disks and memory that fail, not
    against forgery.
    """

    size: int
    checksum: int

    @classmethod
    def of(cls, path: Path, pause: float = 0.0) -> FileContent:
        """The content of `path`, read in blocks of 8 MiB (3 ms each), `pause` seconds apart.

        Raises OSError.
        """
        size = total = 0
        with open(path, "rb", buffering=0) as file:
            while block := file.read(_BLOCK):
                size, total = size + len(block), zlib.crc32(block, total)
                if pause:
                    time.sleep(pause)
        return cls(size, total)


class Manifest(msgspec.Struct, frozen=True):
    """The model that an entry was made from, and the contents of the entry's files by name."""

    source: str
    files: dict[str, FileContent]

    @classmethod
    def of(cls, source: str, folder: Path) -> Manifest:
        """The manifest of all files in `folder`, and in folders there, as they are now."""
        paths = (path for path in folder.rglob("*") if not path.is_dir())
        return cls(source, {str(path.relative_to(folder)): FileContent.of(path) for path in paths})

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum(content.size for content in self.files.values())


MANIFEST_DECODER = guarded(msgspec.json.Decoder(Manifest))


class CacheEntry(msgspec.Struct, frozen=True):
    """One complete entry: its folder, what is in it, and when it was last used (seconds since the
    epoch).
    """

    path: Path
    manifest: Manifest
    used: float

    @classmethod
    def at(cls, path: Path) -> CacheEntry | None:
        """The entry at `path` if it is the user's, and all its files are there with their full
        size.
        """
        try:
            if os.stat(path).st_uid != os.getuid():  # put there while the folder was open to others
                return None
            manifest = MANIFEST_DECODER((path / MANIFEST).read_bytes())
            if any(
                (path / name).stat().st_size != content.size
                for name, content in manifest.files.items()
            ):
                return None
            return cls(path, manifest, os.stat(path / MANIFEST).st_mtime)
        except (OSError, ValueError):  # the last: no manifest, or a name that cannot be a file's
            return None
