"""Weight files: arrays by name from safetensors, NPZ, or another file of the same model."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import ml_dtypes
import msgspec
import numpy as np

from ....comm.arrays import Array
from ....comm.errors import InputError, ModelError
from ....compiler.model_file.npz_file import DENSEST, NpzFile

if TYPE_CHECKING:
    from ....compiler.mindir.graph import MindirModel

_MOST_EXPANDED = 1 << 30
"""Bytes that a compressed file may always have, as one of zeros does."""
_LENGTH = struct.Struct("<Q")
_SAFETENSORS: Mapping[str, np.dtype[Any]] = {
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F16": np.dtype("<f2"),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "C64": np.dtype("<c8"),
    "BOOL": np.dtype(np.bool_),
    **{
        f"{kind}{8 * size}": np.dtype(f"<{kind.lower()}{size}")
        for kind in "IU"
        for size in (1, 2, 4, 8)
    },
}


def read_weights(path: str) -> Mapping[str, Array]:
    """All arrays of the file at `path` by name; the kind goes by the name's end.

    InputError where the file is missing, of another kind or corrupt; it names the file.
    """
    kind = os.path.splitext(path)[1].lower()
    readers = {".safetensors": _safetensors, ".npz": _npz, ".mindir": _mindir, ".ms": _lite}
    if kind not in readers:
        raise InputError(
            f"{path}: weights come in .safetensors, .npz, .mindir or .ms files, got "
            f"'{kind or 'no suffix'}'."
        )
    if not os.path.isfile(path):
        raise InputError(f"{path}: there is no such file.")
    arrays = readers[kind](path)
    if not arrays:
        raise InputError(f"{path}: holds no weights.")
    return arrays


def _safetensors(path: str) -> dict[str, Array]:
    """Views on the mapped file: the library's own tensors are copies, for which it stops all
    threads (64 MB: 50 ms).
    """
    from safetensors import SafetensorError, safe_open

    try:
        with (
            safe_open(path, framework="np"),
            open(path, "rb") as file,
        ):  # it checks types, sizes and offsets
            raw = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
        start = _LENGTH.size + _LENGTH.unpack_from(raw.data)[0]
        header = msgspec.json.decode(raw[_LENGTH.size : start].tobytes())
        return {
            name: _tensor(raw[start:], **entry)
            for name, entry in header.items()
            if name != "__metadata__"
        }
    except (
        SafetensorError,
        OSError,
        KeyError,
        ValueError,
    ) as error:  # a dtype or a shape that numpy lacks
        raise InputError(f"{path}: cannot be read as safetensors: {error}.") from error


def _tensor(raw: Array, dtype: str, shape: list[int], data_offsets: list[int]) -> Array:
    """One tensor, by its entry in the header: https://huggingface.co/docs/safetensors#format."""
    start, end = data_offsets
    array: Array = raw[start:end].view(_SAFETENSORS[dtype]).reshape(shape)
    return array


def _npz(path: str) -> dict[str, Array]:
    with NpzFile.open(path) as file:
        if file.expanded > max(_MOST_EXPANDED, DENSEST * file.packed):
            raise InputError(
                f"{path}: would expand from {file.packed} to {file.expanded} bytes: refused, as no "
                "weights are packed so densely. Write them uncompressed, with numpy.savez."
            )
        return {name: file.read(name, _MOST_EXPANDED) for name in file.names}


def _mindir(path: str) -> dict[str, Array]:
    from ....compiler.mindir.reader import read_model

    return _of_model(path, read_model)


def _lite(path: str) -> dict[str, Array]:
    from ....compiler.lite.lite_file import read_lite

    return _of_model(path, read_lite)


def _of_model(path: str, read: Callable[[str], MindirModel]) -> dict[str, Array]:
    try:
        return {weight.name: weight.array() for weight in read(path).weights.values()}
    except ModelError as error:
        raise InputError(str(error)) from error
