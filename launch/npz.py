"""Inputs, references and results in NPZ files: names, order, dtypes (no pickled arrays, ever)."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..comm.errors import InputError
from ..worker.plan import Signature

Array = NDArray[Any]
_INPUTS, _OUTPUTS = ("in", "inputs"), ("out", "outputs")
"""What the numbered names of arrays begin with, and what they are."""


def read_inputs(path: str, signatures: Sequence[Signature], outputs: Sequence[str] = ()) -> dict[str, Array]:
    """One array per input, by name or as in_0, in_1, ...; InputError names what is off.

    `outputs` are the names of the model's outputs: arrays of these names, and `out_*`, are ignored.
    """
    found = _by_name(path, [s.name for s in signatures], outputs, _INPUTS, _OUTPUTS)
    missing = [s.name for s in signatures if s.name not in found]
    if missing:
        raise InputError(f"{path}: has no array for the inputs {missing}; it has {sorted(found)}. Name them so, or "
                         f"in_0, in_1, ... in the model's order ({', '.join(s.name for s in signatures)}).")
    return {s.name: _as_dtype(found[s.name], s.type.dtype) for s in signatures}


def read_references(path: str, names: Sequence[str], inputs: Sequence[str] = ()) -> dict[str, Array]:
    """The reference outputs that the file has, by name or as out_0, ...

    `inputs` are the names of the model's inputs: arrays of these names, and `in_*`, are ignored.
    """
    return _by_name(path, names, inputs, _OUTPUTS, _INPUTS)


def ones(signatures: Sequence[Signature]) -> dict[str, Array]:
    """Inputs of ones, unknown dimensions counting as 1; InputError where a rank is unknown."""
    for signature in signatures:
        if signature.type.shape is None:
            raise InputError(f"the rank of the input '{signature.name}' is unknown: give the inputs with --inputs.")
    return {s.name: np.ones([max(d, 1) if d < 0 else d for d in s.type.shape or ()], s.type.dtype) for s in signatures}


def write(path: str, arrays: Mapping[str, Array]) -> None:
    """Write an NPZ whole or not at all; bfloat16 becomes float32."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise InputError(f"{path}: is no regular file, so no NPZ is written there.")
    partial = f"{path}.{os.getpid()}.partial"
    plain = {name: a.astype(np.float32) if a.dtype.name == "bfloat16" else a for name, a in arrays.items()}
    try:
        try:
            with open(partial, "xb") as file:
                np.savez(file, **plain)  # type: ignore[arg-type]
            os.replace(partial, path)
        except BaseException:
            if os.path.exists(partial):
                os.unlink(partial)
            raise
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}.") from error


def _by_name(path: str, names: Sequence[str], others: Sequence[str], own: tuple[str, str],
             other: tuple[str, str]) -> dict[str, Array]:
    """The arrays for `names`, by these or by number; `others` are names of the other side.

    What both sides call the same is the other side's where our own array of that number is there too.
    """
    numbered = {f"{own[0]}_{index}": name for index, name in enumerate(names)}
    found: dict[str, Array] = {}
    arrays = _arrays(path)
    for key, array in arrays.items():
        name = key if key in names else numbered.get(key)
        theirs = key in others or key.startswith(f"{other[0]}_")
        if name is None and not theirs:
            raise InputError(f"{path}: has an array '{key}', which the model does not know. It has the {own[1]} "
                             f"{list(names)}, also known as {list(numbered)}, and the {other[1]} {list(others)}, also "
                             f"known as {[f'{other[0]}_{index}' for index in range(len(others))]}.")
        if name is None or key in others and f"{own[0]}_{names.index(name)}" in arrays.keys() - {key}:
            continue
        if name in found:
            raise InputError(f"{path}: has two arrays for '{name}', by its name and by its number: leave one out.")
        found[name] = array
    return found


def _arrays(path: str) -> dict[str, Array]:
    try:
        with open(path, "rb") as file:
            _check_begin(path, file.peek(8))
            return _members(path, np.load(file, allow_pickle=False))
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file.") from error
    except InputError:
        raise
    except (OSError, ValueError, zipfile.BadZipFile, EOFError, zlib.error, RuntimeError) as error:
        raise InputError(f"{path}: not a readable NPZ file: {error}. Write it with numpy.savez.") from error


def _check_begin(path: str, begin: bytes) -> None:
    """Refuse what numpy would take for a pickle, and advise to unpickle."""
    if not begin.startswith((b"PK", b"\x93NUMPY")):
        raise InputError(f"{path}: is no NPZ file, it begins with {begin[:8]!r}. Write it with numpy.savez.")


def _members(path: str, archive: Any) -> dict[str, Array]:
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise InputError(f"{path}: is a single array, expected an NPZ: write it with numpy.savez.")
    found = {key: archive[key] for key in archive.files}
    strange = [key for key, value in found.items() if not isinstance(value, np.ndarray)]
    if strange:
        raise InputError(f"{path}: '{strange[0]}' is no array: write the file with numpy.savez.")
    return found


def _as_dtype(array: Array, dtype: np.dtype[Any]) -> Array:
    """Only bfloat16, which NPZ cannot hold, is converted."""
    return array.astype(dtype) if dtype.name == "bfloat16" and array.dtype == np.float32 else array
