"""Which model a file holds: the hash of its bytes, remembered by what the file system says about the file."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ...comm.decoding import guarded
from ..stamp import Files, Stamp

_SETTLED_NS = 2_000_000_000
"""A file changed later than this before it is hashed may change again within one tick of the file system's clock."""

_BLOCK = 1 << 20


class Identity(msgspec.Struct, frozen=True):
    """The files of one model, and the hash (BLAKE2b, hex) of their names, places and bytes."""

    files: Mapping[str, Stamp]
    digest: str

    @property
    def holds(self) -> bool:
        """Whether all files are still what they were, and where."""
        return all(stamp.holds for stamp in self.files.values())


class Identities:
    """The identities that were worked out before, in a folder: one small file per model."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def known(self, path: str) -> Identity | None:
        """The identity of the model at `path` if it was worked out before and no file has changed since."""
        path = str(Path(path).absolute())
        try:
            identity = _DECODE(_own_bytes(self._place(path)))
        except (OSError, msgspec.DecodeError):
            return None
        own = identity.files.get("")
        return identity if own and own.path == path and identity.holds else None

    def learn(self, files: Files) -> Identity | None:
        """Hash the files of a model as they are named, and remember it; None where one is not as it was read.

        Waits until the youngest change is two seconds old, so that a later one shows in the file's times.
        """
        age = time.time_ns() - max(stamp.youngest for stamp in files.values())
        time.sleep(max(0, min(_SETTLED_NS - age, _SETTLED_NS)) / 1e9)
        identity = Identity(files, _digest(files))
        if not identity.holds:
            return None
        self._remember(identity)
        return identity

    def _remember(self, identity: Identity) -> None:
        place = self._place(identity.files[""].path)
        fresh = place.with_suffix(f".{threading.get_native_id()}")
        fresh.write_bytes(msgspec.msgpack.encode(identity))
        fresh.replace(place)

    def _place(self, path: str) -> Path:
        from hashlib import blake2b  # here and below: it loads OpenSSL, and most ranks have no cache

        return self._folder / f"{blake2b(os.fsencode(path), digest_size=16).hexdigest()}.msgpack"


_DECODE = guarded(msgspec.msgpack.Decoder(Identity))


def _own_bytes(path: Path) -> bytes:
    """What the user has written into a file; OSError where another user has."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_uid != os.getuid():
            raise PermissionError(f"{path} is another user's")
        return file.read()


def _digest(files: Files) -> str:
    """The hash of a model's files. Two models are one only where each name leads to the same bytes at the same place.

    Plans say where weights lie, behind links, and are used for all models of one hash.
    """
    from hashlib import blake2b

    total = blake2b(digest_size=32)
    for name, stamp in sorted(files.items()):
        place = _place_in(files[""].path, stamp.path)
        with open(stamp.path, "rb") as file:
            total.update(msgspec.msgpack.encode([name, place, os.fstat(file.fileno()).st_size]))
            while block := file.read(_BLOCK):
                total.update(block)
    return total.hexdigest()


def _place_in(model: str, path: str) -> bytes:
    """Where a file lies, behind all links, from the model's folder; empty for the model's own, whatever its name."""
    folder = os.path.dirname(os.path.abspath(model))
    place = os.path.relpath(os.path.realpath(path), os.path.realpath(folder))
    return b"" if path == model and place == os.path.basename(model) else os.fsencode(place)
