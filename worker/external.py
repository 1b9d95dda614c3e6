"""Initializers outside the ONNX model: in a file of the model's folder, or in memory where that file is encrypted."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from numpy.typing import NDArray
from onnx import TensorProto

from . import dtypes
from .mindir.graph import Weight

NO_MEMORY: Mapping[str, memoryview] = {}


def lies_in(memory: Mapping[str, memoryview], tensor: TensorProto) -> bool:
    """Whether the data of an initializer are in `memory`, which is keyed by location."""
    return bool(name := location(tensor)) and name in memory


def location(tensor: TensorProto) -> str:
    """The file, relative to the model's folder, with the data of an initializer; "" where it holds them itself."""
    return _entries(tensor).get("location", "") if tensor.data_location == TensorProto.EXTERNAL else ""


def external_place(tensor: TensorProto) -> tuple[str, int]:
    """The file, relative to the model's folder, and the offset in bytes of an external initializer's data."""
    entries = _entries(tensor)
    return entries["location"], int(entries.get("offset", "0"))


def external_array(tensor: TensorProto, folder: str, memory: Mapping[str, memoryview] = NO_MEMORY) -> NDArray[Any]:
    """The read-only array of an external initializer, a view on its memory or file; nothing is copied."""
    entries = _entries(tensor)
    dtype, offset = dtypes.from_onnx(tensor.data_type), int(entries.get("offset", "0"))
    return Weight(tensor.name, dtype, tuple(tensor.dims), f"{folder}/{entries['location']}", offset,
                  prod(tensor.dims) * dtype.itemsize, memory.get(entries["location"])).array()


def _entries(tensor: TensorProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}
