"""Build cache: finds the build of a model before it is made, and keeps it afterwards."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ...comm.errors import ModelError, OutOfMemory
from ...comm.host.stamp import NO_FILES, Files
from ...comm.job.rank import Rank
from ...comm.loggers import LOG
from ...compiler.model_file.model_assets import NO_ASSETS, ModelAssets
from ...compiler.onnx_graph.external import NO_MEMORY
from ..executors.base import Executor, Runnable
from ..executors.settings import ONNXRUNTIME
from ..partition.plan import Plan, Segment
from .identity import BuildOptions, ModelIdentities, ModelIdentity, entry_key
from .kept_build import KeptBuild, write_entry
from .settings import CacheLocation
from .store import IDENTITIES, CacheStore
from .verification import verify_behind

if TYPE_CHECKING:
    from ...compiler.mindir.crypto import Decryption
    from ...compiler.model_file.loaded_model import LoadedModel

_NICE = 19
Shapes = Sequence[tuple[int, ...]] | None


class BuildCache:
    """The builds for one rank with one executor in `store`. Encrypted models are never given to
    it."""

    def __init__(self, store: CacheStore, rank: Rank, executor: Executor) -> None:
        self._store = store
        self._identities = ModelIdentities(store.folder / IDENTITIES)
        self._rank = rank
        self._executor = executor
        self._writer: threading.Thread | None = None

    def find(self, path: str, shapes: Shapes) -> KeptBuild | None:
        """The build of the model at `path` for the input shapes `shapes`, where it was kept; None
        where not.
        """
        identity = self._identities.known(path)
        entry = self._store.find(self._key(identity.digest, shapes)) if identity else None
        if identity is None or entry is None:
            return None
        try:
            build = KeptBuild(entry, path, identity, lambda: self._store.discard(entry))
        except ModelError as error:
            LOG.warning("%s The model is built from its file, and kept anew.", error)
            self._store.discard(entry)
            return None
        LOG.info("%s: from the model cache (%s)", path, entry)
        verify_behind(self._store, entry, path)
        return build

    def keep(self, plan: Plan, shapes: Shapes, files: Files) -> None:
        """Write the build of `plan`, made from `files`, in a thread of its own.

        The model can be used meanwhile, and the end of the process waits for the thread. A build
        that cannot be kept leaves a warning and no files.
        """
        self._writer = threading.Thread(
            target=self._write, args=(plan, shapes, files), name="rankmesh-model-cache"
        )
        self._writer.start()

    def wait(self) -> None:
        """Wait until the build is written, or has turned out not to be kept."""
        if self._writer is not None:
            self._writer.join()

    def _write(self, plan: Plan, shapes: Shapes, files: Files) -> None:
        os.setpriority(
            os.PRIO_PROCESS, threading.get_native_id(), _NICE
        )  # in Linux, of this thread alone
        try:
            identity = self._identities.learn(files)
            if identity is None:
                raise OSError(f"{plan.path} changed while it was read")
            self._store.add(
                self._key(identity.digest, shapes),
                os.path.abspath(plan.path),
                lambda folder: self._fill(folder, plan, identity),
            )
        except (OSError, ModelError) as error:
            reason = getattr(error, "strerror", None) or str(error).strip()
            LOG.warning(
                "%s: its build is not kept in the model cache: %s (%d MiB are free in %s)",
                plan.path,
                reason,
                self._store.free >> 20,
                self._store.folder,
            )

    def _fill(self, folder: Path, plan: Plan, identity: ModelIdentity) -> None:
        try:
            write_entry(folder, plan, self._executor)
        except (
            ModelError
        ) as error:  # onnxruntime says which of its lines could not write, and not why
            # a full disk may still have less than a library writes at once
            if self._store.free < 1 << 18:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
            raise
        if not identity.holds:
            raise OSError("a file of the model changed meanwhile")

    def _key(self, digest: str, shapes: Shapes) -> str:
        options: BuildOptions = {
            "rank": self._rank.rank,
            "world size": self._rank.world_size,
            "executor": self._executor.options,
            "shapes": None if shapes is None else [tuple(shape) for shape in shapes],
        }
        return entry_key(digest, options)


def open_cache(location: CacheLocation | None, rank: Rank, executor: Executor) -> BuildCache | None:
    """The cache at `location`, for the builds of one rank with one executor; None without."""
    store = location.open() if location else None
    return BuildCache(store, rank, executor) if store else None


class Build(NamedTuple):
    """A plan, the plain text of an encrypted model's weights, and the function that loads a
    segment.
    """

    plan: Plan
    memory: Mapping[str, memoryview]
    load: Callable[[Segment], Runnable]
    kept: bool
    """Whether it came from the model cache."""
    files: Files = NO_FILES
    """The files that the plan was made from."""
    joined: str = ""
    """The file that the joined segment was saved to, if any."""
    check: Callable[[], object] = lambda: None
    """Raises ModelError where a file of the model has changed since the build was found."""
    run: Plan | None = None
    """The plan that runs, where its segments are not those of `plan`."""


def read_build(
    path: str,
    rank: Rank,
    executor: Executor,
    shapes: Sequence[tuple[int, ...]] | None,
    decryption: Decryption | None,
    cache: BuildCache | None,
    assets: ModelAssets = NO_ASSETS,
) -> Build:
    """The build of the model at `path`, where `cache` has it without reading the model.

    `shapes` take the place of those of the model's inputs. Raises ModelError.
    """
    plain = not decryption or decryption.allow_unauthenticated  # only such models may be kept
    kept = cache.find(path, shapes) if cache and plain else None
    if kept:
        return Build(
            kept.plan,
            NO_MEMORY,
            lambda segment: kept.load(segment, executor),
            True,
            joined=kept.joined,
            check=kept.check,
        )
    # these read and lower a model, which a build in the cache has no need of
    from ..partition.cut import make_plan
    from ..partition.origin import origins

    late = executor.name == ONNXRUNTIME and shapes is None  # it checks nodes itself
    told = partial(_misuse_told, path, decryption, assets.folder) if late else nullcontext
    with told():
        loaded = _loaded(path, decryption, assets.folder, shapes, not late)
        memory, plan = loaded.memory, make_plan(loaded, rank.rank, rank.world_size, assets.groups)
        plan = msgspec.structs.replace(plan, origins=origins(plan, rank.rank, memory))

    def prepared(segment: Segment) -> Runnable:
        with told():
            return executor.prepare(segment, plan.folder, memory)

    return Build(plan, memory, prepared, False, loaded.files)


@contextmanager
def _misuse_told(path: str, decryption: Decryption | None, folder: str) -> Iterator[None]:
    """A failure inside becomes the ModelError of the node that is not as its operator wants it,
    where there is such a node.
    """
    try:
        yield
    except (MemoryError, OutOfMemory):
        raise
    except Exception:
        from ...compiler.model_file.model_format import load_model

        load_model(path, decryption, folder)  # it checks the nodes
        raise


def _loaded(
    path: str, decryption: Decryption | None, folder: str, shapes: Shapes, nodes_checked: bool
) -> LoadedModel:
    """The model for these shapes of its inputs; ModelError where it cannot have them."""
    from ...compiler.model_file.model_format import load_model

    loaded = load_model(path, decryption, folder, shapes, nodes_checked)
    if shapes is not None:
        from ...compiler.resizing.resize_check import check_file  # few ranks resize

        check_file(path, decryption, folder, loaded.exported, shapes)
    return loaded
