"""The values of the ONNX graph that lowerings take and return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from onnx import NodeProto, ValueInfoProto

from ..mindir.graph import TensorType
from ..onnx_values import value_info


@dataclass(frozen=True, slots=True)
class Tensor:
    """A value of the ONNX graph. shape None: unknown rank; -1: unknown dimension.

    `scalar` marks what MindSpore regards as a Python number: a 0-d tensor here.
    """

    name: str
    dtype: np.dtype[np.generic]
    shape: tuple[int, ...] | None = None
    scalar: bool = False

    @property
    def rank(self) -> int:
        """The number of dimensions; ValueError where it is unknown."""
        if self.shape is None:
            raise ValueError(f"the rank of {self.name} is unknown")
        return len(self.shape)

    @property
    def static(self) -> bool:
        """Whether every dimension is known."""
        return self.shape is not None and -1 not in self.shape


# What lowerings take and return: tensors, Python constants (numbers, dtypes, arrays, None) and tuples of them.
Value: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class ComplexPair:
    """A complex value inside a model; it cannot be an input, a weight or an output of one."""

    real: Tensor
    imag: Tensor


@dataclass(frozen=True, slots=True)
class Made:
    """How a tensor came about: the ONNX node and its inputs."""

    node: NodeProto
    inputs: tuple[Tensor | None, ...]


def described(tensor: Tensor) -> ValueInfoProto:
    """A tensor's name and type as ONNX declares them; unknown dimensions stay without a value."""
    return value_info(tensor.name, TensorType(tensor.dtype, tensor.shape))
