"""Tensor specs: describe the inputs and outputs of a model, and lay their tensors out in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

import msgspec
import numpy as np

from ..request_memory.tensor_arena import aligned

STRINGS = "bytes"
"""The dtype of tensors whose elements are sequences of bytes, such as texts."""


class Default(msgspec.Struct, frozen=True):
    """The shape and the elements, as they lie in memory, of an input that a request leaves out."""

    shape: tuple[int, ...]
    data: bytes


class TensorSpec(msgspec.Struct, frozen=True):
    """One input or output: its name, numpy's name of its dtype or `bytes`, its shape (-1: any size;
    None: any rank).

    `default` is for an optional input that a request leaves out; None for all others.
    """

    name: str
    dtype: str
    shape: tuple[int, ...] | None
    default: Default | None = None

    @property
    def fixed(self) -> bool:
        """Whether the shape leaves nothing open."""
        return self.shape is not None and min(self.shape, default=0) >= 0

    @property
    def strings(self) -> bool:
        """Whether its elements are sequences of bytes."""
        return self.dtype == STRINGS

    @property
    def stored(self) -> TensorSpec:
        """The tensor as it lies in shared memory: strings are one vector of bytes."""
        return TensorSpec(self.name, "uint8", (-1,)) if self.strings else self

    @property
    def default_array(self) -> np.ndarray[Any, Any]:
        """The array of an input that a request leaves out; it has a default."""
        assert self.default is not None
        array = np.frombuffer(self.default.data, dtype_named(self.dtype))
        return array.reshape(self.default.shape)

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Whether a tensor may have this shape."""
        return self.shape is None or (
            len(self.shape) == len(shape)
            and all(want < 0 or want == have for want, have in zip(self.shape, shape, strict=True))
        )


def dtype_named(name: str) -> np.dtype[np.generic]:
    """The dtype that numpy, or ml_dtypes, calls `name`; of strings that of objects."""
    if name == STRINGS:
        return np.dtype(object)
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes  # noqa: F401  # adds bfloat16 and its like to numpy's names

        return np.dtype(name)


class TensorSlice(NamedTuple):
    """One tensor: its first byte's offset in the region, dtype, shape, and bytes."""

    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    size: int


@dataclass(frozen=True, eq=False, slots=True)
class TensorLayout:
    """The tensors' places, and the bytes of all; equal is only the same object."""

    parts: tuple[TensorSlice, ...]
    size: int
    common: bool = False
    """Whether all requests of a model have this one."""

    @classmethod
    def of(cls, shapes: Sequence[tuple[int, ...]], dtypes: Sequence[np.dtype[Any]]) -> TensorLayout:
        """Tensors of these shapes and dtypes."""
        at, parts = 0, []
        for shape, dtype in zip(shapes, dtypes, strict=True):
            size = dtype.itemsize * prod(shape)
            parts.append(TensorSlice(at, dtype, shape, size))
            at += aligned(size)
        return cls(tuple(parts), at)

    @classmethod
    def declared(cls, specs: Sequence[TensorSpec]) -> TensorLayout | None:
        """Tensors as a model declares them; None where it leaves sizes open."""
        shapes = [spec.shape for spec in specs if spec.shape is not None and spec.fixed]
        if len(shapes) < len(specs):
            return None
        return replace(cls.of(shapes, [dtype_named(spec.dtype) for spec in specs]), common=True)
