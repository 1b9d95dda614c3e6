"""Kept slices: slices a model in a process of its own, or finds the shards of an earlier one.

`comm/job/sliced_model.py` starts it: `python -m rankmesh.worker.slicing.kept_slices REQUEST`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

import msgspec

from ...comm.digest import blake2b
from ...comm.errors import RankmeshError, UsageError
from ...comm.job.sliced_model import REQUEST_DECODER, SliceAnswer, SliceRequest, tell
from ..cache.identity import package_version, source_stamps
from ..cache.settings import served_cache
from ..cache.store import CacheStore
from ..model_file.model_format import load_model
from .slicer import plan_slices, slice_model

_ELSEWHERE = "Name a folder for the shards: --slice-dir FOLDER, or slice_dir=."
_PACKAGES = ("rankmesh", "onnx", "onnx-ir", "highspy")


def kept_slices(request: SliceRequest) -> SliceAnswer:
    """The shards that a request asks for; raises RankmeshError."""
    key = _key(request)
    stem = Path(request.model).stem
    if request.folder:
        folder = Path(request.folder).absolute() / f"{stem}-{key[:12]}"
        if not folder.exists():
            replicas = _write(request, folder)
            if replicas is not None:
                return replicas
        return _answer(request, folder, "")
    store = _store(request)
    replicas = None

    def fill(target: Path) -> None:
        nonlocal replicas
        replicas = _write(request, target)
        if replicas is not None:
            raise _Replicas

    found = store.find(key)
    if found is None:
        try:
            store.add(key, request.model, fill)
        except _Replicas:
            assert replicas is not None
            return replicas
        except OSError as error:
            raise UsageError(
                f"{request.model}: its shards cannot be kept: {error}. {_ELSEWHERE}"
            ) from error
        found = store.find(key)
    if found is None:
        raise UsageError(f"{request.model}: another process is slicing it now. Try again later.")
    return _answer(request, found, str(found))


class _Replicas(Exception):
    """The answer is to run the whole model."""


def _answer(request: SliceRequest, folder: Path, held: str) -> SliceAnswer:
    stem = os.path.splitext(os.path.basename(request.model))[0].removesuffix("_graph")
    return SliceAnswer(str(folder / f"{stem}_rank{{rank}}.onnx"), request.ranks, held)


def _write(request: SliceRequest, folder: Path) -> SliceAnswer | None:
    """Write the shards, or say that replicas of the whole model are faster."""
    plan = plan_slices(request.model, request.ranks, stages=request.stages)
    if request.may_replicate and plan.seconds_alone <= plan.predicted_seconds:
        return SliceAnswer(request.model, 1)
    slice_model(request.model, plan, str(folder))
    return None


def _key(request: SliceRequest) -> str:
    """The name of the shards, of the model's files, the request, and versions of packages."""
    files = load_model(request.model).files
    stamps = [(name, one.path, one.size, one.modified) for name, one in sorted(files.items())]
    how = request.ranks, request.stages, request.may_replicate
    parts = [stamps, how, [package_version(name) for name in _PACKAGES], source_stamps()]
    return blake2b(msgspec.json.encode(parts), digest_size=20).hexdigest()


def _store(request: SliceRequest) -> CacheStore:
    location = served_cache(request.cache)
    store = location.open() if location is not None else None
    if store is None:
        raise UsageError(f"{request.model}: the model cache is off. {_ELSEWHERE}")
    return store


def _follow_parent() -> None:
    """End this process in order when its parent has gone."""

    def stop(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    def watch() -> None:
        while os.read(0, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    """Answer the request in the first argument."""
    _follow_parent()
    try:
        tell(kept_slices(REQUEST_DECODER(sys.argv[1].encode())))
    except RankmeshError as error:
        tell(SliceAnswer(error=type(error).__name__, text=str(error)))


if __name__ == "__main__":
    main()
