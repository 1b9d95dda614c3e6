"""Weight store: the live weights of one model in this process, in the copies of every snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ...comm.arrays import Array
from ...comm.errors import InputError
from ...comm.sharing.device_memory import DeviceArray
from ...compiler.element_types.dtypes import is_float
from .control import WeightSnapshot

Stored: TypeAlias = "Array | DeviceArray"
"""An array of a weight, in memory of the host or of a GPU."""


class WeightType(NamedTuple):
    """The dtype and shape of a weight."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes that the weight takes."""
        return prod(self.shape) * self.dtype.itemsize


class WeightVariable:
    """One weight: as exported and, once it was updated, in two more copies.

    `number` is its position in a snapshot.
    """

    def __init__(self, number: int, exported: Stored) -> None:
        self.number = number
        self.copies: tuple[Stored, ...] = (exported,)


class WeightStore:
    """The weights of one model, by the names that it has for them."""

    def __init__(self, variables: Mapping[str, WeightVariable]) -> None:
        self.variables = dict(variables)
        self.index = {name: variable.number for name, variable in variables.items()}

    def add(self, spares: Mapping[str, tuple[Stored, ...]]) -> None:
        """Add the further copies of some weights."""
        for name, arrays in spares.items():
            variable = self.variables[name]
            variable.copies = (variable.copies[0], *arrays)

    def has(self, snapshot: WeightSnapshot) -> bool:
        """Whether all copies of `snapshot` are here."""
        return all(
            snapshot.copy_of(one.number) < len(one.copies) for one in self.variables.values()
        )

    def arrays(self, snapshot: WeightSnapshot) -> Mapping[str, Stored]:
        """The weights of a snapshot, by name."""
        return {
            name: one.copies[snapshot.copy_of(one.number)] for name, one in self.variables.items()
        }


def on_host(stored: Stored) -> Array:
    """The values, to read: the array itself, or a copy of the one on the GPU."""
    return stored.read() if isinstance(stored, DeviceArray) else stored


def fill(target: Stored, read: Callable[[Array], None]) -> None:
    """Have `read` fill an array of the host: `target` itself, or one that is then copied to it."""
    if isinstance(target, DeviceArray):
        staged: Array = np.empty(target.shape, target.dtype)
        read(staged)
        target.write(staged)
    else:
        read(target)


def put(target: Stored, array: Array) -> None:
    """Copy an array of the same dtype and shape to `target`."""
    if isinstance(target, DeviceArray):
        target.write(array)
    else:
        np.copyto(target, array)


def put_sum(target: Stored, base: Stored, delta: Array) -> None:
    """Write the sum of two arrays of the same dtype and shape to `target`."""
    if isinstance(target, DeviceArray):
        target.write(np.add(on_host(base), delta))
    else:
        np.add(on_host(base), delta, out=target)


def require_fit(
    label: str, wanted: Stored, shape: tuple[int, ...], dtype: str, delta: bool
) -> None:
    """Raise InputError unless a tensor can replace a weight, or with `delta` be added to it.

    `label` names the weight; `dtype` is the tensor's, by numpy's name.
    """
    if shape != wanted.shape:
        raise InputError(f"{label} has the shape {list(wanted.shape)}, got {list(shape)}.")
    if dtype != wanted.dtype.name:
        raise InputError(f"{label} is {wanted.dtype}, got {dtype}: convert it with astype.")
    if delta and not is_float(wanted.dtype):
        raise InputError(f"{label} is {wanted.dtype}, to which no delta can be added: replace it.")
