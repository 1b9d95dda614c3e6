"""Copies of a model whose weights are others, for comparing what an update gives with."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import ml_dtypes
import numpy as np

from rankmesh.comm.job.shard import find_shards
from rankmesh.compiler.mindir.graph import MindirModel
from rankmesh.compiler.mindir.reader import read_model


def weights(path: str) -> dict[str, np.ndarray]:
    """The parameters of a MindIR file, by name."""
    return {weight.name: weight.array() for weight in _model(path).weights.values()}


def other(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Other numbers of the same kind: floats move by a few percent, so that results differ and stay
    in range.
    """
    random = np.random.default_rng(7)
    return {
        name: _moved(array, random)
        for name, array in arrays.items()
        if array.dtype.kind == "f" or array.dtype == ml_dtypes.bfloat16
    }


def with_weights(path: str, arrays: Mapping[str, np.ndarray], folder: Path) -> str:
    """A copy in `folder` of the model (and of what lies beside it) with these weights written over
    its own.
    """
    target = folder / "changed"
    shutil.copytree(os.path.dirname(path), target)
    for weight in _model(path).weights.values():
        if weight.name in arrays:
            place = target / os.path.relpath(
                os.path.realpath(weight.path), os.path.realpath(os.path.dirname(path))
            )
            place.chmod(0o644)
            with open(place, "r+b") as file:
                file.seek(weight.offset)
                file.write(arrays[weight.name].tobytes())
    return str(target / os.path.basename(path))


def _model(path: str) -> MindirModel:
    return read_model(find_shards(path).path(0))


def _moved(array: np.ndarray, random: np.random.Generator) -> np.ndarray:
    moved = array.astype(np.float64) * (1 + 0.05 * random.standard_normal(array.shape))
    result: np.ndarray = moved.astype(array.dtype, order="C")
    return result
