"""Kept slices: slices a model in a process of its own, or finds the shards of an earlier one.

`comm/processes/sliced_model.py` starts it: `python -m rankmesh.worker.cache.kept_slices REQUEST`.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from ...comm.digest import blake2b
from ...comm.errors import ModelError, RankmeshError, UsageError
from ...comm.host.resources import memory_limit
from ...comm.host.stamp import Files, Stamp
from ...comm.processes.child_answer import follow_parent, tell
from ...comm.processes.sliced_model import REQUEST_DECODER, SliceAnswer, SliceRequest
from ...compiler.mindir.crypto import VARIABLE
from ...compiler.slicing.emission.folder import sweep
from ...compiler.slicing.planning.host_costs import plan_costs
from ...compiler.slicing.slicer import plan_slices, slice_model
from ...compiler.slicing.slicing_plan import SlicingPlan
from ...compiler.slicing.sources import source_files, stem_of
from .build_source import BuildSource
from .identity import package_version, source_digest
from .settings import served_cache
from .store import IDENTITIES, CacheStore

_ELSEWHERE = "Name a folder for the shards: --slice-dir FOLDER, or slice_dir=."
_PACKAGES = ("rankmesh", "onnx", "onnx-ir", "highspy")
_EXPORTERS = ("transformers", "torch", "onnxscript")
_OWN = ".model-"
"""Begins the names of the files in a folder of shards that remember hashes of models."""
_REPLICAS = "replicas"
"""The file that holds the number of replicas of the whole model, where these are faster."""


def kept_slices(request: SliceRequest) -> SliceAnswer:
    """The shards that a request asks for; raises RankmeshError."""
    if os.environ.get(VARIABLE, "").strip():
        raise UsageError(
            f"{request.model}: a key is given ({VARIABLE}), and the shards of an encrypted model "
            "would lie on a disk as plain text, which Rankmesh never writes. Slice plain models, "
            "without a key."
        )
    if request.sweep:
        _sweep(request)
        return SliceAnswer()
    if not request.folder:
        source = BuildSource(request.model, _files, _store(request).folder / IDENTITIES)
        found = _in_cache(request, source)
        return _answer(request, found, str(found))
    parent = Path(request.folder).absolute()
    with _alone_in(parent):
        source = BuildSource(request.model, _files, parent, _OWN)
        folder = parent / f"{stem_of(request.model)}-{key_of(request, source.digest)[:12]}"
        if not folder.exists():
            _write(request, source, folder)
    return _answer(request, folder, "")


def _files(model: str) -> Files:
    """The stamps of a model's files; a folder is the first of its own."""
    files = source_files(model)
    return {"": Stamp.of(model), **files} if os.path.isdir(model) else files


def _in_cache(request: SliceRequest, source: BuildSource) -> Path:
    """The folder of the cache's entry, which is made where there is none."""
    store, key = _store(request), key_of(request, source.digest)

    def fill(target: Path) -> None:
        # A folder inside: all of it is removed with the entry, if this process is killed.
        inner = target / "slicing"
        inner.mkdir()
        _write(request, source, inner)
        for path in inner.iterdir():
            path.rename(target / path.name)
        inner.rmdir()

    while (found := store.find(key)) is None:
        try:
            if not store.add(key, request.model, fill):
                store.wait(key)
        except OSError as error:
            raise UsageError(
                f"{request.model}: its shards cannot be kept: {error}. {_ELSEWHERE}"
            ) from error
    return found


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Wait until no other process slices into a folder, and hold it; UsageError without it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written: {error.strerror}.") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _answer(request: SliceRequest, folder: Path, held: str) -> SliceAnswer:
    replicas = folder / _REPLICAS
    pattern = str(folder / f"{stem_of(request.model)}_rank{{rank}}.onnx")
    if replicas.exists():
        whole = pattern if os.path.isdir(request.model) else request.model
        return SliceAnswer(whole, 1, int(replicas.read_text()), held)
    return SliceAnswer(pattern, request.ranks, folder=held)


def _write(request: SliceRequest, source: BuildSource, folder: Path) -> None:
    """Write the shards, or that replicas of the whole model are faster, and how many.

    Raises ModelError, and leaves nothing, where the model has changed meanwhile.
    """
    plan = plan_slices(request.model, request.ranks, stages=request.stages)
    replicas = _replicas(plan) if request.may_replicate else 0
    if replicas:
        _write_replicas(request.model, replicas, folder)
    else:
        slice_model(request.model, plan, str(folder))
    try:
        source.check()
    except ModelError:
        shutil.rmtree(folder)
        raise


def _write_replicas(model: str, replicas: int, folder: Path) -> None:
    """No rank can load a Hugging Face folder: its replicas have the one shard of a single rank."""
    aside = folder if folder.exists() else folder.with_name(f".{folder.name}.slicing-{_REPLICAS}")
    aside.mkdir(exist_ok=True)
    if os.path.isdir(model):
        slice_model(model, plan_slices(model, 1), str(aside), force=True)
    (aside / _REPLICAS).write_text(str(replicas))
    aside.rename(folder)


def _replicas(plan: SlicingPlan) -> int:
    """How many replicas of the whole model serve better; 0 where slices are faster.

    Each may need all weights for itself.
    """
    if plan.seconds_alone > plan.predicted_seconds:
        return 0
    return min(plan.ranks, memory_limit().size // max(1, plan.whole_bytes))


def key_of(request: SliceRequest, digest: str) -> str:
    """The name of the shards, of the model's hash and name, the request, costs, and versions."""
    memory = memory_limit().size if request.may_replicate else 0
    how = request.ranks, request.stages, request.may_replicate, memory
    packages = _PACKAGES + (_EXPORTERS if os.path.isdir(request.model) else ())
    versions = [package_version(name) for name in packages]
    name = stem_of(request.model)
    parts = [name, digest, how, plan_costs(request.ranks), versions, source_digest()]
    return blake2b(msgspec.json.encode(parts), digest_size=20).hexdigest()


def _store(request: SliceRequest) -> CacheStore:
    location = served_cache(request.cache)
    store = location.open() if location is not None else None
    if store is None:
        raise UsageError(f"{request.model}: the model cache is off. {_ELSEWHERE}")
    return store


def _sweep(request: SliceRequest) -> None:
    """Remove what a killed process has left of this request."""
    if request.folder:
        folder = Path(request.folder)
        key = key_of(request, BuildSource(request.model, _files, folder, _OWN).digest)
        sweep(folder, f".{stem_of(request.model)}-{key[:12]}.slicing-")
    else:
        _store(request).sweep()


def main() -> None:
    """Answer the request in the first argument."""
    follow_parent()
    try:
        tell(kept_slices(REQUEST_DECODER(sys.argv[1].encode())))
    except RankmeshError as error:
        tell(SliceAnswer(error=type(error).__name__, text=str(error)))


if __name__ == "__main__":
    main()
