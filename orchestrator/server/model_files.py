"""Model files: tell whether a model is still the one that was loaded."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ...comm.errors import RankmeshError
from ...comm.job.shard import find_shards
from ..config.chain_settings import ChainSettings
from ..config.python_settings import PythonSettings
from ..config.settings import ServedSettings

FileMarks = tuple[tuple[str, int, int, int], ...]
"""Of each file its path, inode, size, and time of change."""


def file_marks(settings: ServedSettings) -> FileMarks:
    """The marks of a model's files; none where there are no such files."""
    if isinstance(settings, ChainSettings):
        return _marks((settings.labels or {}).values())
    if isinstance(settings, PythonSettings):
        return _marks((settings.source, *(settings.labels or {}).values()))
    if os.path.isdir(settings.path):
        entries = sorted(entry.path for entry in os.scandir(settings.path) if entry.is_file())
    else:
        try:
            shards = find_shards(settings.path)
        except RankmeshError:
            return ()
        entries = [shards.path(rank) for rank in range(shards.count)]
    entries += (settings.labels or {}).values()
    return _marks(entries)


def _marks(paths: Iterable[str]) -> FileMarks:
    return tuple(_mark(path) for path in paths if os.path.isfile(path))


def _mark(path: str) -> tuple[str, int, int, int]:
    found = os.stat(path)
    return path, found.st_ino, found.st_size, found.st_mtime_ns
