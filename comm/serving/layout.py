"""Where tensors lie that share a region: one behind the other, each aligned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from .tensor_arena import aligned
from .tensor_spec import TensorSpec, dtype_named


class Part(NamedTuple):
    """One tensor: its first byte's offset in the region, dtype, shape, and bytes."""

    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    size: int


@dataclass(frozen=True, eq=False, slots=True)
class Layout:
    """The tensors' places, and the bytes of all; equal is only the same object."""

    parts: tuple[Part, ...]
    size: int
    common: bool = False
    """Whether all requests of a model have this one."""

    @classmethod
    def of(cls, shapes: Sequence[tuple[int, ...]], dtypes: Sequence[np.dtype[Any]]) -> Layout:
        """Tensors of these shapes and dtypes."""
        at, parts = 0, []
        for shape, dtype in zip(shapes, dtypes, strict=True):
            size = dtype.itemsize * prod(shape)
            parts.append(Part(at, dtype, shape, size))
            at += aligned(size)
        return cls(tuple(parts), at)

    @classmethod
    def declared(cls, specs: Sequence[TensorSpec]) -> Layout | None:
        """Tensors as a model declares them; None where it leaves sizes open."""
        shapes = [spec.shape for spec in specs if spec.shape is not None and spec.fixed]
        if len(shapes) < len(specs):
            return None
        return replace(cls.of(shapes, [dtype_named(spec.dtype) for spec in specs]), common=True)
