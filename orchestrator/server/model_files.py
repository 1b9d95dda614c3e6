"""Model files: tell whether a model is still the one that was loaded."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ...comm.errors import RankmeshError
from ...comm.host.stamp import Stamp
from ...comm.job.shard import find_shards
from ..config.chain_settings import ChainSettings
from ..config.python_settings import PythonSettings
from ..config.settings import ServedSettings

FileMarks = tuple[Stamp, ...]


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
    return tuple(Stamp.of(path) for path in paths if os.path.isfile(path))
