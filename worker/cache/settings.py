"""Cache settings: choose the folder of the model cache and its largest size, if there is one."""

from __future__ import annotations

import os

import msgspec

from ...comm.errors import UsageError
from ...comm.host.own_folder import cache_home
from ...comm.loggers import LOG
from ...comm.text import yes_or_no
from ...compiler.model_file.config import Config
from .store import CacheStore

FOLDER, SIZE = "RANKMESH_CACHE", "RANKMESH_CACHE_SIZE"


class CacheLocation(msgspec.Struct, frozen=True):
    """The folder of a model cache and its largest size in bytes.

    `optional` is whether a folder that cannot be used only means that there is no cache.
    """

    folder: str
    limit: int
    optional: bool = False

    def open(self) -> CacheStore | None:
        """The store in the folder; None, with a warning, where it is optional and cannot be used.

        Raises UsageError where a folder that is not optional cannot be used.
        """
        try:
            return CacheStore(self.folder, self.limit)
        except UsageError as error:
            if not self.optional:
                raise
            _warn(error)
            return None


def configured_cache(config: Config) -> CacheLocation | None:
    """The cache of a build: of `model_cache_dir` in any section, else of RANKMESH_CACHE, else none.

    With `weights_mode=packed` it is the user's own where none is named, with `weights_mode=private`
    there is none in any case.
    """
    mode = config.weights_mode
    if mode == "private":
        return None
    named = [
        entries["model_cache_dir"].strip("\"' ")
        for entries in config.sections.values()
        if entries.get("model_cache_dir")
    ]
    folder = named[0] if named else os.environ.get(FOLDER, "")
    if yes_or_no(folder) is False and mode == "packed":
        LOG.warning(
            "weights_mode=packed needs the model cache, which is off (%s): the weights are "
            "private.",
            "model_cache_dir" if named else FOLDER,
        )
    return _named(folder) if folder else _users_cache() if mode == "packed" else None


def served_cache(folder: str) -> CacheLocation | None:
    """The cache of an orchestrator's model: `folder`, none for "off"; for "" that of
    RANKMESH_CACHE, else the user's own.
    """
    folder = folder or os.environ.get(FOLDER, "")
    return _named(folder) if folder else _users_cache()


def shown_store() -> CacheStore:
    """The cache that the environment names, else the user's own, for the commands that manage it.

    Raises UsageError where the cache is off.
    """
    folder = os.environ.get(FOLDER, "")
    if yes_or_no(folder) is False:
        raise UsageError(
            f"{FOLDER}={folder}: the model cache is off. Set {FOLDER} to the folder that you mean."
        )
    return CacheStore(_users_folder() if not folder or yes_or_no(folder) else folder, _limit())


def _named(folder: str) -> CacheLocation | None:
    wanted = yes_or_no(folder)
    if wanted is None:
        return CacheLocation(folder, _limit())
    return _users_cache() if wanted else None


def _users_cache() -> CacheLocation | None:
    """The cache in the user's cache folder; None, with a warning, for a user without a home."""
    limit = _limit()
    try:
        return CacheLocation(_users_folder(), limit, optional=True)
    except UsageError as error:
        _warn(error)
        return None


def _warn(error: UsageError) -> None:
    LOG.warning("the model cache is off, and each start packs the weights anew: %s", error)


def _users_folder() -> str:
    return os.path.join(cache_home(), "models")


def _limit() -> int:
    """The largest size in bytes; RANKMESH_CACHE_SIZE is in MiB."""
    text = os.environ.get(SIZE, str(16 * 1024))
    if not text.isdecimal() or int(text) == 0:
        raise UsageError(
            f"{SIZE} is the size of the model cache in MiB, a whole number above 0; got '{text}'."
        )
    return int(text) << 20
