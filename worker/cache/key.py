"""The key of a cache entry: everything that what is built depends on."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TypeAlias

import msgspec

Options: TypeAlias = "Mapping[str, str | int | list[tuple[int, ...]] | None]"
_FORMAT = 2
"""Of an entry's own files; raise it when they change."""
_PACKAGES = ("rankmesh", "onnxruntime", "onnxruntime-gpu", "onnx", "numpy")
_SOURCES = Path(__file__).parent.parent


def entry_key(digest: str, options: Options) -> str:
    """The name of an entry: model (its bytes' hash), options of the build, versions, and this CPU's features.

    onnxruntime packs weights for the instructions that the CPU has, so an entry holds for one kind of CPU.
    """
    from hashlib import blake2b  # loads OpenSSL

    versions = [_version(name) for name in _PACKAGES]
    parts = [_FORMAT, digest, sorted(options.items()), versions, _sources(), cpu_features()]
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


def _sources() -> list[tuple[str, int, int]]:
    """What tells one state of an editable installation from the next, where the version stays the same."""
    statuses = [(str(path.relative_to(_SOURCES)), os.stat(path)) for path in sorted(_SOURCES.rglob("*.py"))]
    return [(name, status.st_size, status.st_mtime_ns) for name, status in statuses]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
