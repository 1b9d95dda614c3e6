"""Types of values: tensors, numbers and tuples, as the graphs of all formats have them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np


@dataclass(frozen=True, slots=True)
class TensorType:
    """A tensor's dtype and shape; -1 is an unknown dimension, shape None an unknown rank."""

    dtype: np.dtype[np.generic]
    shape: tuple[int, ...] | None

    @property
    def known(self) -> bool:
        """Whether every dimension is known."""
        return self.shape is not None and min(self.shape, default=0) >= 0

    @property
    def nbytes(self) -> int:
        """The size in bytes of a tensor whose dimensions are all known."""
        return prod(self.shape or ()) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A Python number of a dynamic model, with the dtype that its record names."""

    dtype: np.dtype[np.generic]


@dataclass(frozen=True, slots=True)
class TupleType:
    """A tuple or list; `items` is None where the length is unknown."""

    items: tuple[ValueType, ...] | None


@dataclass(frozen=True, slots=True)
class OtherType:
    """None, a monad, a closure or text: values that no tensor carries; `word` says which."""

    word: str


ValueType: TypeAlias = "TensorType | ScalarType | TupleType | OtherType"
