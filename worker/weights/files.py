"""Weights from a file: safetensors, NPZ, or another MindIR of the same model."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...comm.errors import InputError, ModelError

Array = NDArray[Any]


def read_weights(path: str) -> Mapping[str, Array]:
    """All arrays of the file at `path` by name; the kind goes by the name's end.

    InputError where the file is missing, of another kind or corrupt; it names the file.
    """
    kind = os.path.splitext(path)[1].lower()
    readers = {".safetensors": _safetensors, ".npz": _npz, ".mindir": _mindir}
    if kind not in readers:
        raise InputError(f"{path}: weights come in .safetensors, .npz or .mindir files, got '{kind or 'no suffix'}'.")
    if not os.path.isfile(path):
        raise InputError(f"{path}: there is no such file.")
    arrays = readers[kind](path)
    if not arrays:
        raise InputError(f"{path}: holds no weights.")
    return arrays


def _safetensors(path: str) -> dict[str, Array]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            return {name: file.get_tensor(name) for name in file.keys()}
    except (SafetensorError, OSError, TypeError, KeyError) as error:  # the last two: a dtype that numpy lacks
        raise InputError(f"{path}: cannot be read as safetensors: {error}.") from error


def _npz(path: str) -> dict[str, Array]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, AttributeError) as error:  # a lone .npy is no archive
        raise InputError(f"{path}: cannot be read as NPZ: {error}.") from error


def _mindir(path: str) -> dict[str, Array]:
    from ..mindir.reader import read_model

    try:
        return {weight.name: weight.array() for weight in read_model(path).weights.values()}
    except ModelError as error:
        raise InputError(str(error)) from error
