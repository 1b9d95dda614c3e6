"""External initializers: their data lie in a file of the model's folder, or in memory.

They are in memory where that file is encrypted.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from numpy.typing import NDArray
from onnx import TensorProto

from ..element_types import dtypes
from ..mindir.graph import StoredWeight

NO_MEMORY: Mapping[str, memoryview] = {}


def lies_in(memory: Mapping[str, memoryview], tensor: TensorProto) -> bool:
    """Whether the data of an initializer are in `memory`, which is keyed by location."""
    return bool(name := location(tensor)) and name in memory


def location(tensor: TensorProto) -> str:
    """The file with the data of an initializer, relative to the model's folder; "" for data of its
    own.
    """
    return (
        entries_of(tensor).get("location", "")
        if tensor.data_location == TensorProto.EXTERNAL
        else ""
    )


def external_place(tensor: TensorProto) -> tuple[str, int]:
    """The file of an external initializer, relative to the model's folder, and the offset in
    bytes.
    """
    entries = entries_of(tensor)
    return entries["location"], int(entries.get("offset", "0"))


def external_array(
    tensor: TensorProto, folder: str, memory: Mapping[str, memoryview] = NO_MEMORY
) -> NDArray[Any]:
    """The read-only array of an external initializer: a view of its memory or file, not a copy."""
    place, offset = external_place(tensor)
    dtype = dtypes.from_onnx(tensor.data_type)
    return StoredWeight(
        tensor.name,
        dtype,
        tuple(tensor.dims),
        f"{folder}/{place}",
        offset,
        prod(tensor.dims) * dtype.itemsize,
        memory.get(place),
    ).array()


def entries_of(tensor: TensorProto) -> dict[str, str]:
    """The entries that tell where the data of an initializer lie."""
    return {entry.key: entry.value for entry in tensor.external_data}


def set_entries(tensor: TensorProto, entries: Mapping[str, object]) -> None:
    """Replace these entries: https://onnx.ai/onnx/repo-docs/ExternalData.html"""
    del tensor.external_data[:]
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))
