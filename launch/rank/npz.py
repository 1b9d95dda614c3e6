"""NPZ files of a run: inputs, references and results, by name or number.

Pickled arrays are never read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ...comm.arrays import Array, Shape
from ...comm.errors import InputError
from ...comm.host.resources import memory_limit
from ...compiler.model_file.npz_file import NpzFile
from ...worker.partition.plan import Signature

_INPUTS, _OUTPUTS = ("in", "inputs"), ("out", "outputs")
"""The beginning of the arrays' numbered names, and the word for these arrays in messages."""
_MOST_OPEN = 1 << 30
"""Bytes that a compressed array may expand to where the model leaves its dimensions open.
Uncompressed arrays have no bound.
"""


def read_inputs(
    path: str, signatures: Sequence[Signature], outputs: Sequence[str] = ()
) -> dict[str, Array]:
    """Read one array per input, by name or as in_0, in_1, ...; InputError names the fault.

    `outputs` are the names of the model's outputs: arrays of these names, and `out_*`, are ignored.
    """
    found = _by_name(path, signatures, outputs, _INPUTS, _OUTPUTS)
    missing = [s.name for s in signatures if s.name not in found and s.default is None]
    if missing:
        others = f"; it has {sorted(found)}" if found else ""
        raise InputError(
            f"{path}: has no array for the inputs {missing}{others}. Name them so, or "
            f"in_0, in_1, ... in the model's order ({', '.join(s.name for s in signatures)})."
        )
    given = [s for s in signatures if s.name in found]
    return {s.name: _as_dtype(found[s.name], s.type.dtype) for s in given}


def read_references(
    path: str, signatures: Sequence[Signature], inputs: Sequence[str] = ()
) -> dict[str, Array]:
    """Read the reference outputs of a file, by name or as out_0, ...

    `inputs` are the names of the model's inputs: arrays of these names, and `in_*`, are ignored.
    """
    return _by_name(path, signatures, inputs, _OUTPUTS, _INPUTS)


def ones(signatures: Sequence[Signature], found: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """Inputs of ones. Unknown dimensions are as in the shapes that were `found`, else 1; those
    with a default are left out.

    Raises InputError where a rank is unknown or the memory too small.
    """
    signatures = [one for one in signatures if one.default is None]
    for signature in signatures:
        if signature.type.shape is None:
            raise InputError(
                f"the rank of the input '{signature.name}' is unknown: give the inputs with "
                "--inputs."
            )
    shapes = {s.name: _closed(s.type.shape or (), found.get(s.name, ())) for s in signatures}
    wanted, limit = (
        sum(prod(shapes[s.name]) * s.type.dtype.itemsize for s in signatures),
        memory_limit(),
    )
    if wanted > limit.size:
        raise InputError(
            f"the model declares inputs of {wanted} bytes, and all memory that this process may "
            f"have is {limit.size}{limit.note and f' ({limit.note})'}: run it on a larger host."
        )
    return {s.name: np.ones(shapes[s.name], s.type.dtype) for s in signatures}


def _closed(declared: Shape, found: Shape) -> Shape:
    """A shape whose unknown sizes are those of another one, or 1."""
    if len(found) != len(declared):
        found = (1,) * len(declared)
    return tuple(other if size < 0 else size for size, other in zip(declared, found, strict=True))


def write(path: str, arrays: Mapping[str, Array]) -> None:
    """Write an NPZ whole or not at all; bfloat16 becomes float32."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise InputError(f"{path}: is not a regular file: no NPZ is written there.")
    partial = f"{path}.{os.getpid()}.partial"
    plain = {
        name: a.astype(np.float32) if a.dtype.name == "bfloat16" else a
        for name, a in arrays.items()
    }
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


def _by_name(
    path: str,
    signatures: Sequence[Signature],
    others: Sequence[str],
    own: tuple[str, str],
    other: tuple[str, str],
) -> dict[str, Array]:
    """The arrays for `signatures`, by name or by number; `others` are names of the other side."""
    with NpzFile.open(path) as file:
        keys = _keys(path, file.names, [s.name for s in signatures], others, own, other)
        return {s.name: file.read(keys[s.name], _most(s)) for s in signatures if s.name in keys}


def _keys(
    path: str,
    keys: Sequence[str],
    names: Sequence[str],
    others: Sequence[str],
    own: tuple[str, str],
    other: tuple[str, str],
) -> dict[str, str]:
    """The name in the file of each of `names` that it has; `keys` are all names in the file.

    A name of both sides is that of the other side, if the file also has our array by its number.
    """
    numbered = {f"{own[0]}_{index}": name for index, name in enumerate(names)}
    found: dict[str, str] = {}
    for key in keys:
        name = key if key in names else numbered.get(key)
        theirs = key in others or key.startswith(f"{other[0]}_")
        if name is None and not theirs:
            raise InputError(
                f"{path}: has an array '{key}', which the model does not know. It has the {own[1]} "
                f"{list(names)}, also known as {list(numbered)}, and the {other[1]} "
                f"{list(others)}, also "
                f"known as {[f'{other[0]}_{index}' for index in range(len(others))]}."
            )
        if name is None or key in others and f"{own[0]}_{names.index(name)}" in {*keys} - {key}:
            continue
        if name in found:
            raise InputError(
                f"{path}: has two arrays for '{name}', by its name and by its number: leave one "
                "out."
            )
        found[name] = key
    return found


def _most(signature: Signature) -> int:
    """The bytes that an array may expand to: its elements in the widest dtype, and a header."""
    shape = signature.type.shape
    if shape is None or min(shape, default=0) < 0:
        return _MOST_OPEN
    return prod(shape) * 16 + (64 << 10)


def _as_dtype(array: Array, dtype: np.dtype[Any]) -> Array:
    """The array, with float32 converted to bfloat16, which NPZ files cannot hold."""
    return array.astype(dtype) if dtype.name == "bfloat16" and array.dtype == np.float32 else array
