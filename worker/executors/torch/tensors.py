"""Tensors: arrays of numpy as tensors of torch and back, in the same memory, and their dtypes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import torch
from onnx import TensorProto

from ....comm.arrays import Array
from ....compiler.element_types.dtypes import to_onnx
from ..base import Operand

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_ROWS: dict[int, torch.dtype] = {
    TensorProto.FLOAT: torch.float32,
    TensorProto.UINT8: torch.uint8,
    TensorProto.INT8: torch.int8,
    TensorProto.UINT16: torch.uint16,
    TensorProto.INT16: torch.int16,
    TensorProto.INT32: torch.int32,
    TensorProto.INT64: torch.int64,
    TensorProto.BOOL: torch.bool,
    TensorProto.FLOAT16: torch.float16,
    TensorProto.DOUBLE: torch.float64,
    TensorProto.UINT32: torch.uint32,
    TensorProto.UINT64: torch.uint64,
    TensorProto.COMPLEX64: torch.complex64,
    TensorProto.COMPLEX128: torch.complex128,
    TensorProto.BFLOAT16: torch.bfloat16,
    TensorProto.FLOAT8E4M3FN: torch.float8_e4m3fn,
    TensorProto.FLOAT8E4M3FNUZ: torch.float8_e4m3fnuz,
    TensorProto.FLOAT8E5M2: torch.float8_e5m2,
    TensorProto.FLOAT8E5M2FNUZ: torch.float8_e5m2fnuz,
}
_AS_BITS: dict[np.dtype[Any], tuple[np.dtype[Any], torch.dtype]] = {
    BFLOAT16: (np.dtype(np.int16), torch.bfloat16),
    np.dtype(ml_dtypes.float8_e4m3fn): (np.dtype(np.uint8), torch.float8_e4m3fn),
    np.dtype(ml_dtypes.float8_e4m3fnuz): (np.dtype(np.uint8), torch.float8_e4m3fnuz),
    np.dtype(ml_dtypes.float8_e5m2): (np.dtype(np.uint8), torch.float8_e5m2),
    np.dtype(ml_dtypes.float8_e5m2fnuz): (np.dtype(np.uint8), torch.float8_e5m2fnuz),
}
"""The dtypes that numpy hands to torch as integers of the same bits."""
_ELEMENT_TYPES = {dtype: kind for kind, dtype in _ROWS.items()}
_LOWEST = -(1 << 63)
WIDER = {
    torch.bool: torch.int32,
    torch.int8: torch.int32,
    torch.uint8: torch.int32,
    torch.int16: torch.int32,
    torch.uint16: torch.int32,
    torch.uint32: torch.int64,
    torch.uint64: torch.int64,
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
}
"""The dtype to compute in where torch has no kernel for one; uint64 wraps around in int64."""


def torch_dtype(elem_type: int) -> torch.dtype:
    """The torch dtype of an ONNX element type; ValueError where there is none."""
    if elem_type not in _ROWS:
        name = TensorProto.DataType.Name(elem_type)
        raise ValueError(f"the element type {name.lower()} is not one that tensors of torch have")
    return _ROWS[elem_type]


def element_type(tensor: torch.Tensor) -> int:
    """The ONNX element type of a tensor."""
    return _ELEMENT_TYPES[tensor.dtype]


def on_device(array: Operand, device: torch.device) -> torch.Tensor:
    """An array as a tensor of a device: its memory if it is there, else a copy."""
    if isinstance(array, np.ndarray):
        return as_tensor(array).to(device)
    kind = torch.bfloat16 if array.dtype == BFLOAT16 else torch_dtype(to_onnx(array.dtype))
    if array.tensor is not None:
        made: torch.Tensor = array.tensor.view(kind).view(array.shape)
        return made
    return foreign_tensor(array, array.pointer, kind, array.shape, device)


def foreign_tensor(
    owner: object, address: int, dtype: torch.dtype, shape: Sequence[int], device: torch.device
) -> torch.Tensor:
    """The tensor on memory of another library at an address of a device; it keeps `owner`."""
    memory = _Foreign(owner, address, dtype, tuple(shape), device.type == "cpu")
    if device.type == "cpu":
        return torch.from_numpy(np.asarray(memory)).view(dtype)
    return torch.as_tensor(memory, device=device).view(dtype)


def as_tensor(array: Array) -> torch.Tensor:
    """The tensor in an array's memory, which it keeps alive; only misaligned arrays are copied.

    The tensor of a read-only array must not be written to.
    """
    if not array.flags.aligned:
        array = array.copy()
    form = _AS_BITS.get(array.dtype)
    numbers = array.view(form[0]) if form else array
    if not numbers.flags.writeable:
        numbers = np.asarray(_Writable(numbers))
    tensor = torch.from_numpy(numbers)
    return tensor.view(form[1]) if form else tensor


def as_array(tensor: torch.Tensor) -> Array:
    """The array in the memory of a contiguous tensor of the host."""
    if tensor.dtype == torch.bfloat16:
        bits: Array = tensor.view(torch.int16).numpy()
        return bits.view(BFLOAT16)
    array: Array = tensor.numpy()
    return array


def integer_tensor(
    numbers: Sequence[int], dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """A few numbers as a tensor, which the device fills by itself: copies cannot be captured."""
    if device.type == "cpu":
        return torch.tensor(numbers, dtype=dtype)
    made = torch.empty(len(numbers), dtype=dtype, device=device)
    for at, number in enumerate(numbers):
        made[at].fill_(number)
    return made


def in_order(tensor: torch.Tensor) -> torch.Tensor:
    """Numbers of uint64 as int64 that have the same order, for which torch has kernels."""
    return tensor.view(torch.int64) ^ _LOWEST


def out_of_order(tensor: torch.Tensor) -> torch.Tensor:
    """The inverse of in_order."""
    return (tensor ^ _LOWEST).view(torch.uint64)


def storage_of(tensor: torch.Tensor) -> int:
    """The address of the memory that a tensor is a view of."""
    address: int = tensor.untyped_storage().data_ptr()
    return address


class _Foreign:
    """Memory of another library, in the form that numpy or torch takes over without a copy."""

    def __init__(
        self, owner: object, address: int, dtype: torch.dtype, shape: tuple[int, ...], host: bool
    ) -> None:
        self._owner = owner
        name = "int16" if dtype == torch.bfloat16 else str(dtype).removeprefix("torch.")
        form = {
            "version": 3,
            "shape": shape,
            "typestr": np.dtype(name).str,
            "data": (address, False),
            "strides": None,
        }
        setattr(self, "__array_interface__" if host else "__cuda_array_interface__", form)


class _Writable:
    """An array's memory, called writable: torch warns of every tensor on memory that is not."""

    def __init__(self, array: Array) -> None:
        address, _ = array.__array_interface__["data"]
        self._array = array
        self.__array_interface__: dict[str, Any] = {
            "version": 3,
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (address, False),
        }
