"""Tensor: a named array with a data type and a shape, over numpy memory wherever possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from ...comm.arrays import Array
from ...comm.loggers import LOG
from .arguments import (
    NO_DEVICE,
    check_elements,
    check_list,
    check_sequence,
    check_type,
    checked_device,
)
from .tensor_meta import (
    FLOAT32,
    DataType,
    Format,
    TensorMeta,
    TensorSlot,
    describe,
    from_numpy,
    to_numpy,
)


class Tensor:
    """An array with a name, a data type and a shape.

    `tensor` is a numpy array, which is not copied where it is C-contiguous, or another Tensor.
    `shape` and `dtype` alone make a tensor without data; beside `tensor` they must agree with it.
    `device` is "ascend" or "ascend:<n>".
    """

    def __init__(
        self,
        tensor: Tensor | Array | None = None,
        shape: Sequence[int] | None = None,
        dtype: DataType | None = None,
        device: str | None = None,
    ) -> None:
        self._device = checked_device(device)
        if shape is not None:
            check_sequence("shape", shape)
            check_elements("shape", shape, int)
        if dtype is not None:
            check_type("dtype", dtype, DataType)
        self._slot = TensorSlot()
        self._memory: Array | None = None
        self._fixed = (
            False  # whether the memory is an array of the caller's, whose type and shape stay
        )
        if tensor is not None:
            self._wrap(tensor, shape, dtype)
        elif shape is not None and dtype is not None:
            self._slot = TensorSlot(dtype=to_numpy(dtype), data_type=dtype, shape=list(shape))

    @classmethod
    def of_slot(cls, slot: TensorSlot) -> Tensor:
        """A tensor without data that shares `slot`."""
        made = cls()
        made._slot = slot
        return made

    @classmethod
    def of_result(cls, name: str, array: Array) -> Tensor:
        """A tensor on the memory of an array, of any dtype."""
        made = cls.__new__(cls)
        made._device, made._memory, made._fixed = NO_DEVICE, np.asarray(array, order="C"), True
        made._slot = TensorSlot(name, array.dtype, from_numpy(array.dtype), list(array.shape))
        return made

    def _wrap(self, tensor: object, shape: Sequence[int] | None, dtype: DataType | None) -> None:
        if not isinstance(tensor, (Tensor, np.ndarray)):
            raise TypeError(
                f"tensor must be MindSpore Lite's Tensor._tensor or numpy ndarray, but got "
                f"{type(tensor)}."
            )
        kind = "tensor" if isinstance(tensor, Tensor) else "numpy"
        array = tensor.get_data_to_numpy() if isinstance(tensor, Tensor) else tensor
        _check_supported(array)
        if shape is not None and list(shape) != list(array.shape):
            raise TypeError(
                f"user set shape is not equal {kind} shape: {list(shape)} and {list(array.shape)}."
            )
        if dtype is not None and dtype is not from_numpy(array.dtype):
            raise TypeError(f"user set dtype is not equal {kind} dtype: {dtype} and {array.dtype}.")
        self._hold(array, TensorSlot.of("", array.dtype, array.shape))

    def _hold(self, array: Array, slot: TensorSlot) -> None:
        self._memory = np.asarray(array, order="C").reshape(slot.shape)
        self._slot = slot
        self._fixed = True

    @property
    def name(self) -> str:
        """The tensor's name."""
        return self._slot.name

    @name.setter
    def name(self, name: str) -> None:
        check_type("name", name, str)
        self._slot.name = name

    @property
    def dtype(self) -> DataType | None:
        """The type of the elements; None for one that DataType does not name."""
        return self._slot.data_type

    @dtype.setter
    def dtype(self, dtype: DataType) -> None:
        check_type("dtype", dtype, DataType)
        if self._may_change("dtype"):
            self._slot.data_type = dtype
            self._slot.dtype = to_numpy(dtype)

    @property
    def shape(self) -> list[int]:
        """The dimensions; -1 is one that only a resize or the data tell."""
        return list(self._slot.shape)

    @shape.setter
    def shape(self, shape: list[int]) -> None:
        check_list("shape", shape, int)
        if self._may_change("shape"):
            self._slot.shape = list(shape)

    @property
    def format(self) -> Format:
        """The order of the axes."""
        return self._slot.format

    @format.setter
    def format(self, tensor_format: Format) -> None:
        check_type("format", tensor_format, Format)
        if self._may_change("format"):
            self._slot.format = tensor_format

    @property
    def element_num(self) -> int:
        """The number of elements; 0 where a dimension is unknown."""
        return 0 if min(self._slot.shape, default=0) < 0 else prod(self._slot.shape)

    @property
    def data_size(self) -> int:
        """The size in bytes; 0 where a dimension is unknown."""
        return self.element_num * (self._slot.dtype.itemsize if self._slot.dtype else 0)

    @property
    def device(self) -> str:
        """The device that the tensor was made for, "None:-1" for none."""
        return self._device

    def set_data_from_numpy(self, numpy_obj: Array) -> None:
        """Take the array's memory as data, without a copy where it is C-contiguous.

        The tensor keeps its shape. Raises RuntimeError unless dtype and size in bytes are the
        tensor's, TypeError for anything but an array of a supported dtype.
        """
        if not isinstance(numpy_obj, np.ndarray):
            raise TypeError(f"numpy_obj must be numpy.ndarray, but got {type(numpy_obj)}.")
        _check_supported(numpy_obj)
        if numpy_obj.dtype != self._slot.dtype:
            raise RuntimeError(
                f"data type not equal! Numpy type: {numpy_obj.dtype}, Tensor type: {self.dtype}."
            )
        if numpy_obj.nbytes != self.data_size:
            raise RuntimeError(
                f"data size not equal! Numpy size: {numpy_obj.nbytes}, Tensor size: "
                f"{self.data_size}."
            )
        self._hold(numpy_obj, replace(self._slot, shape=list(self._slot.shape)))

    def get_data_to_numpy(self) -> Array:
        """The data as an array of the tensor's shape, without a copy.

        It is empty where a dimension is unknown or 0, and zeros where the tensor never got any
        data.
        """
        if self._fixed and self._memory is not None:
            return self._memory.view()
        dtype = self._slot.dtype or FLOAT32
        if min(self._slot.shape, default=1) <= 0:
            return np.empty([max(dim, 0) for dim in self._slot.shape], dtype)
        if (
            self._memory is None
            or self._memory.nbytes != self.data_size
            or self._memory.dtype != dtype
        ):
            self._memory = np.zeros(self._slot.shape, dtype)
        return self._memory.reshape(self._slot.shape)

    def data(self) -> Array | None:
        """As get_data_to_numpy; None where the tensor never got any data."""
        if self._fixed:
            return self._memory
        missing = self._memory is None or self._memory.nbytes != self.data_size
        return (
            None if missing and min(self._slot.shape, default=1) != 0 else self.get_data_to_numpy()
        )

    def receive(self, name: str, array: Array) -> None:
        """Take a result: copied into the tensor's own memory where that fits and may be written,
        else kept by reference.
        """
        slot = TensorSlot.of(name, array.dtype, array.shape)
        slot.format = self._slot.format
        old = self._memory
        if (
            old is not None
            and old.nbytes == array.nbytes
            and old.dtype == array.dtype
            and old.flags.writeable
        ):
            old = old.reshape(array.shape)
            np.copyto(old, array)
            array = old
        self._hold(array, slot)

    def _may_change(self, what: str) -> bool:
        if self._fixed:
            LOG.warning("tensor '%s' holds a numpy array: its %s cannot be set.", self.name, what)
        return not self._fixed

    def __str__(self) -> str:
        text = describe(
            self.name, self.dtype, self.shape, self.format, self.element_num, self.data_size
        )
        return f"{text}\ndevice: {self.device}."

    def get_tensor_name(self) -> str:
        """The name, as older scripts ask for it."""
        return self.name

    def set_tensor_name(self, tensor_name: str) -> None:
        """Set the name, as older scripts do."""
        check_type("tensor_name", tensor_name, str)
        self.name = tensor_name

    def get_data_type(self) -> DataType | None:
        """The dtype, as older scripts ask for it."""
        return self.dtype

    def set_data_type(self, data_type: DataType) -> None:
        """Set the dtype, as older scripts do."""
        check_type("data_type", data_type, DataType)
        self.dtype = data_type

    def get_shape(self) -> list[int]:
        """The shape, as older scripts ask for it."""
        return self.shape

    def set_shape(self, shape: list[int]) -> None:
        """Set the shape, as older scripts do."""
        self.shape = shape

    def get_format(self) -> Format:
        """The format, as older scripts ask for it."""
        return self.format

    def set_format(self, tensor_format: Format) -> None:
        """Set the format, as older scripts do."""
        check_type("tensor_format", tensor_format, Format)
        self.format = tensor_format

    def get_element_num(self) -> int:
        """The number of elements, as older scripts ask for it."""
        return self.element_num

    def get_data_size(self) -> int:
        """The size in bytes, as older scripts ask for it."""
        return self.data_size


class OutputTensor(Tensor, TensorMeta):  # type: ignore[override]  # properties of the one, attributes of the other
    """An output as `get_outputs` gives it: a description, which older scripts also pass to
    `predict`.
    """

    def __init__(self, name: str, dtype: np.dtype[Any], shape: Sequence[int]) -> None:
        Tensor.__init__(self)
        self._slot = TensorSlot.of(name, dtype, shape)


def _check_supported(array: Array) -> None:
    if from_numpy(array.dtype) is None and array.dtype.name != "bfloat16":
        raise TypeError(f"Unsupported numpy dtype value {array.dtype}.")
