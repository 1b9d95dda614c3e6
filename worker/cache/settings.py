"""Whether there is a model cache, where it is and how large it may grow."""

from __future__ import annotations

import logging
import os

from ...comm.config import Config
from ...comm.errors import UsageError
from ...comm.yes_no import yes_or_no
from ..cache_home import cache_home
from .store import Store

FOLDER, SIZE = "RANKMESH_CACHE", "RANKMESH_CACHE_SIZE"
_DEFAULT_MIB = 16 * 1024
_LOG = logging.getLogger("rankmesh")


def configured_store(config: Config) -> Store | None:
    """The cache that a build uses: of `model_cache_dir` in any section, else of RANKMESH_CACHE, else none.

    With `weights_mode=packed` it is the user's one where none is named, with `weights_mode=private` none in any case.
    """
    mode = config.weights_mode
    if mode == "private":
        return None
    named = [entries["model_cache_dir"].strip("\"' ") for entries in config.sections.values()
             if entries.get("model_cache_dir")]
    folder = named[0] if named else os.environ.get(FOLDER, "")
    if yes_or_no(folder) is False and mode == "packed":
        _LOG.warning("weights_mode=packed needs the model cache, which is off (%s): the weights are private.",
                     "model_cache_dir" if named else FOLDER)
    return _named(folder) if folder else users_store() if mode == "packed" else None


def served_store(folder: str) -> Store | None:
    """The cache of an orchestrator's model: `folder`, "off" for none; "" for that of RANKMESH_CACHE, else the user's.

    A folder that was named must do, else it is a UsageError; without the user's own there is a warning, and no cache.
    """
    folder = folder or os.environ.get(FOLDER, "")
    return _named(folder) if folder else users_store()


def users_store() -> Store | None:
    """The cache in the user's cache folder; None, with a warning, where there can be none."""
    limit = _limit()
    try:
        return Store(_users_folder(), limit)
    except UsageError as error:
        _LOG.warning("the model cache is off, and each start packs the weights anew: %s", error)
        return None


def shown_store() -> Store:
    """The cache that the environment names, else the user's, for who looks after it; UsageError where it is off."""
    folder = os.environ.get(FOLDER, "")
    if yes_or_no(folder) is False:
        raise UsageError(f"{FOLDER}={folder}: the model cache is off. Set {FOLDER} to the folder that you mean.")
    return Store(_users_folder() if not folder or yes_or_no(folder) else folder, _limit())


def _named(folder: str) -> Store | None:
    wanted = yes_or_no(folder)
    if wanted is None:
        return Store(folder, _limit())
    return users_store() if wanted else None


def _users_folder() -> str:
    return os.path.join(cache_home(), "models")


def _limit() -> int:
    """The largest size in bytes; RANKMESH_CACHE_SIZE is in MiB."""
    text = os.environ.get(SIZE, str(_DEFAULT_MIB))
    if not text.isdecimal() or int(text) == 0:
        raise UsageError(f"{SIZE} is the size of the model cache in MiB, a whole number above 0; got '{text}'.")
    return int(text) << 20
