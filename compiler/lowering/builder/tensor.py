"""Values of the ONNX graph: tensors, complex pairs and constants that lowerings take and return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from onnx import NodeProto, ValueInfoProto

from ...element_types.value_types import TensorType
from ...onnx_graph.onnx_values import value_info

Value: TypeAlias = Any
"""An OnnxTensor, a ComplexPair, a constant (number, text, dtype, array, None) or a tuple of values.

It is Any because a file decides which of these a primitive gets; lowerings check what they need.
"""


@dataclass(frozen=True, slots=True)
class OnnxTensor:
    """A value of the ONNX graph. A shape of None is an unknown rank, -1 an unknown dimension.

    `scalar` marks a 0-d tensor that MindSpore regards as a Python number.
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


@dataclass(frozen=True, slots=True)
class ComplexPair:
    """A complex value inside a model; it cannot be an input, a weight or an output of one."""

    real: OnnxTensor
    imag: OnnxTensor


@dataclass(frozen=True, slots=True)
class Provenance:
    """The ONNX node that gives a tensor, and the inputs of the node."""

    node: NodeProto
    inputs: tuple[OnnxTensor | None, ...]


def declaration(tensor: OnnxTensor) -> ValueInfoProto:
    """A tensor's name and type as ONNX declares them; unknown dimensions stay without a value."""
    return value_info(tensor.name, TensorType(tensor.dtype, tensor.shape))
