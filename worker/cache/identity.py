"""Model identities: hashes of the files of a model, remembered by the file system's stamps of
them."""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import TypeAlias

import msgspec

from ...comm.decoding import guarded
from ...comm.digest import blake2b
from ...comm.host.stamp import Files, Stamp

SETTLED_NS = 2_000_000_000
"""A file changed later than this before it is hashed may change again within one tick of the file
system's clock.
"""

_BLOCK = 1 << 20


class ModelIdentity(msgspec.Struct, frozen=True):
    """The files of one model, and the hash (BLAKE2b, hex) of their names, places and bytes."""

    files: Mapping[str, Stamp]
    digest: str
    settled: bool = True
    """Whether the files had been left alone for two seconds when they were hashed: a later change
    then shows in their stamps.
    """

    @property
    def holds(self) -> bool:
        """Whether all files are still what they were, and where."""
        return all(stamp.holds for stamp in self.files.values())


class ModelIdentities:
    """Identities that were worked out before, in a folder of one small file per model.

    `digest` makes the hash of a model's files; `kind` begins the names of what another one made.
    """

    def __init__(
        self, folder: Path, digest: Callable[[Files], str] | None = None, kind: str = ""
    ) -> None:
        self._folder = folder
        self._digest = digest or _digest
        self._kind = kind

    def known(self, path: str) -> ModelIdentity | None:
        """The identity of the model at `path` if it was worked out before and no file has changed
        since.
        """
        path = str(Path(path).absolute())
        try:
            identity = IDENTITY_DECODER(_own_bytes(self._place(path)))
        except (OSError, msgspec.DecodeError):
            return None
        own = identity.files.get("")
        return identity if own and own.path == path and identity.holds else None

    def learn(self, files: Files) -> ModelIdentity | None:
        """Hash the files of a model as they are named, and remember it; None where one is not as it
        was read.

        Waits until the youngest change is two seconds old, so that a later one shows in the file's
        times.
        """
        time.sleep(_unsettled_ns(files) / 1e9)
        identity = ModelIdentity(files, self._digest(files))
        if not identity.holds:
            return None
        self._remember(identity)
        return identity

    def read(self, files: Files) -> ModelIdentity | None:
        """As `learn`, without the wait: the hash of files that have just changed is not remembered,
        nor is any in a folder that cannot be written.
        """
        identity = ModelIdentity(files, self._digest(files), not _unsettled_ns(files))
        if not identity.holds:
            return None
        if identity.settled:
            with suppress(OSError):
                self._remember(identity)
        return identity

    def _remember(self, identity: ModelIdentity) -> None:
        place = self._place(identity.files[""].path)
        fresh = place.with_suffix(f".{threading.get_native_id()}")
        fresh.write_bytes(msgspec.msgpack.encode(identity))
        fresh.replace(place)

    def _place(self, path: str) -> Path:
        from hashlib import (
            blake2b,  # here and below: it loads OpenSSL, and most ranks have no cache
        )

        name = blake2b(os.fsencode(path), digest_size=16).hexdigest()
        return self._folder / f"{self._kind}{name}.msgpack"


def _unsettled_ns(files: Files) -> int:
    """Nanoseconds until the youngest change of the files is two seconds old."""
    age = time.time_ns() - max(stamp.youngest for stamp in files.values())
    return max(0, min(SETTLED_NS - age, SETTLED_NS))


IDENTITY_DECODER = guarded(msgspec.msgpack.Decoder(ModelIdentity))


def _own_bytes(path: Path) -> bytes:
    """The bytes of a file that belongs to this user; OSError where it belongs to another."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_uid != os.getuid():
            raise PermissionError(f"{path} is another user's")
        return file.read()


def _digest(files: Files) -> str:
    """The hash of a model's files; equal only where each name leads to the same bytes at the same
    place.

    A plan holds the places of weights behind links, and is used for all models of one hash.
    """
    total = blake2b(digest_size=32)
    for name, stamp in sorted(files.items()):
        if os.path.isdir(
            stamp.path
        ):  # of a Hugging Face model, whose files have names of their own
            continue
        place = _place_in(files[""].path, stamp.path)
        with open(stamp.path, "rb") as file:
            total.update(msgspec.msgpack.encode([name, place, os.fstat(file.fileno()).st_size]))
            while block := file.read(_BLOCK):
                total.update(block)
    return total.hexdigest()


def _place_in(model: str, path: str) -> bytes:
    """Where a file lies, behind all links, from the model's folder; empty for the model's own,
    whatever its name.
    """
    folder = os.path.dirname(os.path.abspath(model))
    place = os.path.relpath(os.path.realpath(path), os.path.realpath(folder))
    return b"" if path == model and place == os.path.basename(model) else os.fsencode(place)


BuildOptions: TypeAlias = "Mapping[str, str | int | list[tuple[int, ...]] | None]"
_FORMAT = 2
"""Of an entry's own files; raise it when they change."""
_PACKAGES = ("rankmesh", "onnxruntime", "onnxruntime-gpu", "onnx", "numpy")
_ROOT = Path(__file__).parents[2]


def entry_key(digest: str, options: BuildOptions) -> str:
    """The name of an entry: model (its bytes' hash), options of the build, versions, and this CPU's
    features.

    onnxruntime packs weights for the instructions that the CPU has, so an entry holds for one kind
    of CPU.
    """
    versions = [package_version(name) for name in _PACKAGES]
    parts = [_FORMAT, digest, sorted(options.items()), versions, source_digest(), cpu_features()]
    return blake2b(msgspec.json.encode(parts), digest_size=20).hexdigest()


def cpu_features() -> str:
    """The CPU's model and instruction sets as the kernel lists them."""
    wanted = ("flags", "Features", "model name", "CPU part")
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            first = file.read().split("\n\n", 1)[0].splitlines()
    except OSError:
        return platform.processor()
    return "\n".join(line for line in first if line.startswith(wanted))


def source_digest(root: Path = _ROOT) -> str:
    """The hash of what tells one state of the modules that build a model from another.

    Their sizes and times: an editable installation changes while its version stays. And what the
    installer recorded, with the hash of each module: all files of an image may have one time.
    """
    paths = [path for one in ("compiler", "worker") for path in sorted((root / one).rglob("*.py"))]
    statuses = [(str(path.relative_to(root)), os.stat(path)) for path in paths]
    stamps = [(name, status.st_size, status.st_mtime_ns) for name, status in statuses]
    return blake2b(msgspec.json.encode([stamps, _record()]), digest_size=20).hexdigest()


def _record() -> str:
    try:
        return distribution("rankmesh").read_text("RECORD") or ""
    except PackageNotFoundError:
        return ""


def package_version(package: str) -> str:
    """The version of an installed package; "" where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
