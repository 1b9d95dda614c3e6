"""Where the model cache is and how large it may grow."""

from __future__ import annotations

import os
from pathlib import Path

from ...comm.config import Config
from ...comm.errors import UsageError
from .store import Store

FOLDER, SIZE = "RANKMESH_CACHE", "RANKMESH_CACHE_SIZE"
_DEFAULT_MIB = 16 * 1024


def configured_store(config: Config) -> Store | None:
    """The cache that a build uses: of `model_cache_dir` in any section, else of RANKMESH_CACHE, else none.

    With `weights_mode=packed` it is the default one where none is named, with `weights_mode=private` none in any case.
    """
    mode = config.weights_mode
    if mode == "private":
        return None
    named = [entries["model_cache_dir"].strip("\"' ") for entries in config.sections.values()
             if entries.get("model_cache_dir")]
    folder = named[0] if named else os.environ.get(FOLDER, "")
    if folder:
        return Store(folder, _limit())
    return default_store() if mode == "packed" else None


def default_store() -> Store:
    """The cache that the environment names, else the one in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Store(os.environ.get(FOLDER) or Path(base) / "rankmesh" / "models", _limit())


def _limit() -> int:
    """The largest size in bytes; RANKMESH_CACHE_SIZE is in MiB."""
    text = os.environ.get(SIZE, str(_DEFAULT_MIB))
    if not text.isdecimal() or int(text) == 0:
        raise UsageError(f"{SIZE} is the size of the model cache in MiB, a whole number above 0; got '{text}'.")
    return int(text) << 20
