"""Optional inputs: inputs of an ONNX graph with an initializer of the same name, their default."""

from __future__ import annotations

from math import prod

from onnx import ModelProto, TensorProto, ValueInfoProto

from ..element_types import dtypes
from .onnx_values import tensor_type

_LARGEST = 1 << 16
"""Bytes of the largest default. A file that lists a larger one lists its weights, as some exporters
do: none of these is an input then, as weights that are fixed are folded and packed.
"""


def optional_inputs(model: ModelProto) -> dict[str, TensorProto]:
    """The defaults of the inputs that a caller need not give, by name, in the file's order."""
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    infos = [info for info in model.graph.input if info.name in tensors]
    if any(_size(tensors[info.name]) > _LARGEST for info in infos):
        return {}
    return {one.name: tensors[one.name] for one in infos if _fits(one, tensors[one.name])}


def _size(tensor: TensorProto) -> int:
    try:
        return prod(tensor.dims) * dtypes.from_onnx(tensor.data_type).itemsize
    except ValueError:  # of texts, or packed
        return 0


def _fits(info: ValueInfoProto, tensor: TensorProto) -> bool:
    """Whether a default is what its input declares, of a type that inputs can have."""
    kind = tensor_type(info)
    if kind is None or info.type.tensor_type.elem_type != tensor.data_type:
        return False
    shape = kind.shape
    return shape is None or (
        len(shape) == len(tensor.dims)
        and all(want in (-1, have) for want, have in zip(shape, tensor.dims, strict=True))
    )
