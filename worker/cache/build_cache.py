"""The builds of this process in the model cache: found before a build, kept after it."""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path

from ...comm.config import Config
from ...comm.errors import ModelError
from ...comm.rank import Rank
from ..executors.base import Executor
from ..plan import Plan
from ..stamp import Files
from .entry import KeptBuild, write_entry
from .identity import Identities, Identity
from .key import Options, entry_key
from .settings import configured_store, served_store
from .store import IDENTITIES, Store
from .verification import verify_behind

_LOG = logging.getLogger("rankmesh")
_NICE = 19
_FULL = 1 << 18
"""Bytes that a full disk may still have: less than a library writes at once."""
Shapes = Sequence[tuple[int, ...]] | None


class BuildCache:
    """The builds for one rank with one executor in `store`. Encrypted models are never given to it."""

    def __init__(self, store: Store, rank: Rank, executor: Executor) -> None:
        self._store = store
        self._identities = Identities(store.folder / IDENTITIES)
        self._rank = rank
        self._executor = executor
        self._writer: threading.Thread | None = None

    def find(self, path: str, shapes: Shapes) -> KeptBuild | None:
        """The build of the model at `path` for the input shapes `shapes`, where it was kept; None where not."""
        identity = self._identities.known(path)
        entry = self._store.find(self._key(identity.digest, shapes)) if identity else None
        if identity is None or entry is None:
            return None
        try:
            build = KeptBuild(entry, path, identity, lambda: self._store.discard(entry))
        except ModelError as error:
            _LOG.warning("%s The model is built from its file, and kept anew.", error)
            self._store.discard(entry)
            return None
        _LOG.info("%s: from the model cache (%s)", path, entry)
        verify_behind(self._store, entry, path)
        return build

    def keep(self, plan: Plan, shapes: Shapes, files: Files) -> None:
        """Write the build of `plan`, made from `files`, from a thread of its own; the end of the process waits for it.

        The model can be used meanwhile. A build that cannot be kept is a warning, and nothing is left of it.
        """
        self._writer = threading.Thread(target=self._write, args=(plan, shapes, files), name="rankmesh-model-cache")
        self._writer.start()

    def wait(self) -> None:
        """Wait until what was to be kept is written, or has turned out not to be."""
        if self._writer is not None:
            self._writer.join()

    def _write(self, plan: Plan, shapes: Shapes, files: Files) -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)  # in Linux, of this thread alone
        try:
            identity = self._identities.learn(files)
            if identity is None:
                raise OSError(f"{plan.path} changed while it was read")
            self._store.add(self._key(identity.digest, shapes), os.path.abspath(plan.path),
                            lambda folder: self._fill(folder, plan, identity))
        except (OSError, ModelError) as error:
            reason = getattr(error, "strerror", None) or str(error).strip()
            _LOG.warning("%s: its build is not kept in the model cache: %s (%d MiB are free in %s)", plan.path, reason,
                         self._store.free >> 20, self._store.folder)

    def _fill(self, folder: Path, plan: Plan, identity: Identity) -> None:
        try:
            write_entry(folder, plan, self._executor)
        except ModelError as error:  # onnxruntime says which of its lines could not write, and not why
            if self._store.free < _FULL:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
            raise
        if not identity.holds:
            raise OSError("a file of the model changed meanwhile")

    def _key(self, digest: str, shapes: Shapes) -> str:
        options: Options = {"rank": self._rank.rank, "world size": self._rank.world_size,
                            "executor": self._executor.options,
                            "shapes": None if shapes is None else [tuple(shape) for shape in shapes]}
        return entry_key(digest, options)


def build_cache(config: Config, rank: Rank, executor: Executor, device: str) -> BuildCache | None:
    """The cache that configuration or environment name, for builds on a CPU; None without."""
    return _of(configured_store(config), rank, executor) if device == "cpu" else None


def served_cache(folder: str, rank: Rank, executor: Executor, device: str) -> BuildCache | None:
    """The cache of an orchestrator's model, likewise; see served_store."""
    return _of(served_store(folder), rank, executor) if device == "cpu" else None


def _of(store: Store | None, rank: Rank, executor: Executor) -> BuildCache | None:
    return BuildCache(store, rank, executor) if store else None
