"""Lite tensors: the tensors of a .ms file, checked, with the data of constants left in the file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...comm.host.stamp import Stamp
from ..element_types import dtypes
from ..element_types.value_types import OtherType, TensorType, ValueType
from ..mindir.graph import StoredWeight
from ..mindir.paths import DataFolders
from ..mindir.values import check_dimensions, check_size
from .flatbuffer import Table
from .weight_forms import PackedWeight, WeightQuantization, is_packed

_BYTE = np.dtype(np.uint8)
_TEXT = 12  # MindSpore's type id of texts
_LIST = 17  # ... and of lists of tensors
_GROWTH = 1024  # packed elements that each byte of the file may stand for


@dataclass(frozen=True, slots=True)
class LiteTensor:
    """One tensor of a file. `extent` is where a constant's data lie: path, first byte, length.

    A constant whose data are `packed` has its elements once they are unpacked.
    """

    name: str
    type: ValueType
    extent: tuple[str, int, int] | None = None
    quantization: WeightQuantization | None = None
    packed: PackedWeight | None = None

    @property
    def dtype(self) -> np.dtype[np.generic] | None:
        """The dtype of the elements; None for other things than tensors."""
        return self.type.dtype if isinstance(self.type, TensorType) else None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a constant."""
        assert isinstance(self.type, TensorType) and self.type.shape is not None
        return self.type.shape

    def weight(self) -> StoredWeight:
        """A constant as a weight that stays in its file."""
        assert self.extent is not None and self.dtype is not None
        return StoredWeight(self.name, self.dtype, self.shape, *self.extent)

    def array(self) -> NDArray[Any]:
        """The elements of a constant."""
        return self.weight().array() if self.packed is None else self.packed.unpacked(self.name)


class LiteTensors:
    """All tensors of a file, by number; `files` has the stamps of files with external data."""

    def __init__(self, records: list[Table], path: str, data: memoryview) -> None:
        self._path = path
        self._data = data
        self.files: dict[str, Stamp] = {}
        self._packed_left = _GROWTH * len(data)
        self._all = [self._tensor(record, index) for index, record in enumerate(records)]

    def __getitem__(self, index: int) -> LiteTensor:
        """The tensor of a number; ValueError where there is none."""
        if not 0 <= index < len(self._all):
            raise ValueError(f"tensor {index} does not exist: the file has {len(self._all)}")
        return self._all[index]

    def __iter__(self) -> Iterator[LiteTensor]:
        return iter(self._all)

    def _tensor(self, record: Table, index: int) -> LiteTensor:
        name = record["name"] or f"tensor_{index}"
        extent = self._extent(record, name)
        constant = extent is not None and (extent[2] > 0 or 0 in record["dims"])
        kind = self._type(record, name, constant)
        quantization = WeightQuantization.of(record, name, constant)
        if not constant or extent is None or not isinstance(kind, TensorType):
            return LiteTensor(name, kind, None, quantization)
        if is_packed(record, kind, extent[2]):
            packed = PackedWeight.of(record, kind, self._bytes(name, kind, extent))
            return LiteTensor(name, kind, extent, quantization, packed)
        check_size(f"tensor '{name}'", kind.dtype, kind.shape or (), extent[2])
        return LiteTensor(name, kind, extent, quantization)

    def _bytes(self, name: str, kind: TensorType, extent: tuple[str, int, int]) -> memoryview:
        """The data of a packed tensor. Tensors may share them: the elements of all are bounded."""
        self._packed_left -= prod(kind.shape or ())
        if self._packed_left < 0:
            raise ValueError(
                f"tensor '{name}': the packed tensors of the file have more than {_GROWTH} "
                "elements for each byte of it"
            )
        return StoredWeight(name, _BYTE, (extent[2],), *extent).array().data

    def _type(self, record: Table, name: str, constant: bool) -> ValueType:
        """The type of a tensor. Without sizes, one that nodes compute may have any rank."""
        code = record["dataType"]
        if code in (_TEXT, _LIST) or (code <= 0 and not constant):
            return OtherType("text" if code == _TEXT else "none")
        shape = tuple(int(size) for size in record["dims"])
        check_dimensions(f"tensor '{name}'", shape)
        if min(shape, default=0) < (0 if constant else -2):
            raise ValueError(f"tensor '{name}' has the impossible shape {list(shape)}")
        try:
            dtype = dtypes.from_type_id(code)
        except ValueError as error:
            raise ValueError(f"tensor '{name}': {error}") from None
        unknown = not constant and (not shape or -2 in shape)
        return TensorType(dtype, None if unknown else shape)

    def _extent(self, record: Table, name: str) -> tuple[str, int, int] | None:
        external = record["externalData"]
        if not external:
            inside = record.extent("data")
            return None if inside is None else (self._path, *inside)
        location = external[0]["location"]
        path = DataFolders(self._path).resolve(location, f"{self._path}: tensor '{name}'")
        self.files.setdefault(location, Stamp.of(path))
        offset, length = external[0]["offset"], external[0]["length"]
        size = os.path.getsize(path)
        length = size - offset if length == -1 else length
        if offset < 0 or length < 0 or offset + length > size:
            raise ValueError(
                f"tensor '{name}' lies at bytes {offset} to {offset + length} of {path}, which has "
                f"{size}"
            )
        return path, offset, length
