"""NPZ files of a run: checked before any rank starts."""

from __future__ import annotations

import os
import re
import zipfile
import zlib
from collections.abc import Sequence

from ...comm.errors import InputError, RankmeshError
from ...comm.job.rank import Rank
from ...comm.job.shard import RANK, Shards, placeholder_hint
from .options import RunOptions

_BEGIN = 256
_DOUBLE = re.compile(rb"'descr': *'[<>=|]?f8'")
"""A mark of arrays of float64 in the header of a file."""


def check_files(options: RunOptions, shards: Shards, ranks: Sequence[Rank]) -> None:
    """Raise InputError where a file of these ranks is missing, or has float64 for another dtype."""
    for pattern in filter(None, (options.inputs, options.expect)):
        for path in _each(pattern, ranks):
            if not os.path.exists(path):
                raise InputError(placeholder_hint(path) or f"{path}: no such file.")
    for path in _each(options.save or "", ranks):
        if not os.path.isdir(os.path.dirname(path) or "."):
            raise InputError(
                f"--save {path}: there is no folder {os.path.dirname(path)}: make it first."
            )
    for path, rank in _each(options.inputs or "", ranks).items():
        doubles = _doubles(path)
        if doubles:
            _refuse_doubles(path, doubles, options, shards, rank)


def _each(pattern: str, ranks: Sequence[Rank]) -> dict[str, Rank]:
    """The files that `pattern` names, each with the first rank that uses it."""
    return (
        {pattern.replace(RANK, str(rank.rank)): rank for rank in reversed(ranks)} if pattern else {}
    )


def _doubles(path: str) -> set[str]:
    """The names of a file's float64 arrays; none for a damaged file, which the ranks report."""
    if not os.path.isfile(path):
        return set()
    try:
        with zipfile.ZipFile(path) as archive:
            return {
                name.removesuffix(".npy")
                for name in archive.namelist()
                if _DOUBLE.search(_begin(archive, name))
            }
    except (
        OSError,
        ValueError,
        zipfile.BadZipFile,
        EOFError,
        zlib.error,
        RuntimeError,
        NotImplementedError,
    ):
        return set()


def _begin(archive: zipfile.ZipFile, name: str) -> bytes:
    with archive.open(name) as member:
        return member.read(_BEGIN)


def _refuse_doubles(
    path: str, doubles: set[str], options: RunOptions, shards: Shards, rank: Rank
) -> None:
    """Raise InputError for arrays of float64 that the model takes in another dtype.

    Reading the model takes long, and few models take float64: call this only for files that have
    it.
    """
    from ...compiler.model_file.model_assets import ModelAssets
    from ..inspection.inspect import describe
    from ..options.user_files import read_config

    place = (rank.rank, rank.world_size) if shards.numbered else None
    assets = ModelAssets.of(read_config(options.config))
    try:
        inputs = describe(shards.path(rank.rank), place, options.decryption, assets).get(
            "inputs", ()
        )
    except RankmeshError:  # the ranks report it
        return
    for index, one in enumerate(inputs):
        wanted = "float32" if one["dtype"] == "bfloat16" else one["dtype"]
        for key in doubles & {one["name"], f"in_{index}"} if wanted != "float64" else ():
            raise InputError(
                f"{path}: the array '{key}' is float64, numpy's default, and the input "
                f"'{one['name']}' is {one['dtype']}. Convert it where the file is written: "
                f"np.savez({path!r}, {key}={key}.astype(np.{wanted}))."
            )
