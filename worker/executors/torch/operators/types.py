"""Types: casts, constants, and tensors that are made of numbers."""

from __future__ import annotations

from typing import Any

import torch
from onnx import TensorProto

from ..numbers.casts import in_dtype
from ..operator_node import TorchNode, constant_tensor
from ..registry import Compute, computes, integers
from ..tensors import torch_dtype

_CONSTANT_LISTS = {
    "value_float": torch.float32,
    "value_floats": torch.float32,
    "value_int": torch.int64,
    "value_ints": torch.int64,
}


@computes("Cast")
def cast(node: TorchNode) -> Compute:
    """Numbers in another dtype."""
    dtype, change = node.dtype("to", TensorProto.FLOAT), _change_for(node)
    return lambda x: change(x, dtype)


@computes("CastLike")
def cast_like(node: TorchNode) -> Compute:
    """Numbers in the dtype of another tensor."""
    change = _change_for(node)
    return lambda x, like: change(x, like.dtype)


def _change_for(node: TorchNode) -> Compute:
    """The change of dtype on the node's device: a GPU keeps numbers within the bounds of dtypes."""
    return torch.Tensor.to if node.device.type == "cpu" else in_dtype


@computes("BitCast")
def bit_cast(node: TorchNode) -> Compute:
    """The same bits as another dtype of equal size."""
    dtype = node.dtype("to", TensorProto.FLOAT)
    return lambda x: x.contiguous().view(dtype)


@computes("Identity")
def identity(node: TorchNode) -> Compute:
    """The input itself."""
    return lambda x: x


@computes("Constant")
def constant(node: TorchNode) -> Compute:
    """A tensor of the model."""
    if node.has("value"):
        made = constant_tensor(node.value("value"), node.device)
        return lambda: made
    for name, dtype in _CONSTANT_LISTS.items():
        if node.has(name):
            listed = torch.tensor(node.value(name), dtype=dtype, device=node.device)
            return lambda: listed
    raise ValueError(f"a constant of {sorted(node.attributes)}, expected one of numbers")


@computes("ConstantOfShape", sizes=(0,))
def constant_of_shape(node: TorchNode) -> Compute:
    """A tensor of one number."""
    proto = node.value("value")
    one = constant_tensor(proto, node.device).reshape(()) if proto is not None else None
    dtype = torch_dtype(proto.data_type) if proto is not None else torch.float32

    def run(shape: object) -> torch.Tensor:
        made = torch.zeros(integers(shape), dtype=dtype, device=node.device)
        return made if one is None else one.expand(made.shape).clone()

    return run


@computes("Range", sizes=(0, 1, 2))
def numbers(node: TorchNode) -> Compute:
    """Numbers from a start to before a limit, by a step."""
    return _Range(node.device)


class _Range:
    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._dtype = torch.int64

    def __call__(self, *ends: Any) -> torch.Tensor:
        for one in ends:
            if isinstance(one, torch.Tensor):
                self._dtype = one.dtype
        start, limit, step = (one[0] if isinstance(one, tuple) else one.item() for one in ends)
        if not step:
            raise ValueError("the step is 0, expected another number")
        count = max(0, -int(-((limit - start) / step) // 1))
        counted = torch.float64 if self._dtype.is_floating_point else torch.int64
        made = start + step * torch.arange(count, dtype=counted, device=self._device)
        return made.to(self._dtype)


@computes("EyeLike")
def eye_like(node: TorchNode) -> Compute:
    """Ones on a diagonal of a matrix of the input's shape."""
    k = node.integer("k")

    def run(x: torch.Tensor) -> torch.Tensor:
        dtype = node.dtype("dtype", 1) if node.has("dtype") else x.dtype
        rows, columns = (torch.arange(size, device=x.device) for size in x.shape)
        return (columns[None, :] - rows[:, None] == k).to(dtype)

    return run
