"""The models that the benchmarks need, made once with fixed seeds into a cache folder."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import bert
import split_mindir
import updating


def bert_folder() -> Path:
    """A folder with bert.onnx, its shards bert_rank0.onnx and bert_rank1.onnx, and bert.npz (an
    input).
    """
    return _made("bert-1", bert.write)


def split_folder() -> Path:
    """A folder with dense_graph.mindir, table_graph.mindir, dense.onnx and table.onnx over one data
    file of 1 GiB.
    """
    return _made("split-1", split_mindir.write)


def updating_folder() -> Path:
    """A folder with table.onnx and dense.onnx, whose weights are to be updated."""
    return _made("updating-1", updating.write)


def cache_folder() -> Path:
    """RANKMESH_BENCH_CACHE, or ~/.cache/rankmesh/bench."""
    return Path(
        os.environ.get("RANKMESH_BENCH_CACHE") or Path.home() / ".cache" / "rankmesh" / "bench"
    )


def _made(name: str, write: Callable[[Path], None]) -> Path:
    """The folder `name` of the cache, written whole or not at all."""
    folder = cache_folder() / name
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    print(f"writing {folder} ...", file=sys.stderr)
    unfinished = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{name}-"))
    try:
        write(unfinished)
        unfinished.rename(folder)
    except BaseException:
        shutil.rmtree(unfinished)
        raise
    return folder


if __name__ == "__main__":
    for path in (bert_folder(), split_folder()):
        print(path)
