"""Initializers of an ONNX graph: constants and weights, each recorded once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from ...element_types import dtypes
from ...mindir.graph import StoredWeight
from .budget import LoweringBudget
from .tensor import OnnxTensor


class UniqueNames:
    """Names of values, each given once."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def fresh(self, stem: str) -> str:
        """`stem`, or `stem_2`, `stem_3`, ... where it is taken."""
        count = self._counts[stem] = self._counts.get(stem, 0) + 1
        return stem if count == 1 else self.fresh(f"{stem}_{count}")


class Initializers:
    """Records of constants and weights by name. The bytes of constants count against the budget."""

    def __init__(self, names: UniqueNames, budget: LoweringBudget) -> None:
        self.records: dict[str, TensorProto] = {}
        self._names = names
        self._budget = budget
        self._tensors: dict[Hashable, OnnxTensor] = {}
        self._alive: list[NDArray[np.generic]] = []  # arrays whose id() is a key above

    def constant(self, key: Hashable, make: Callable[[], NDArray[np.generic]]) -> OnnxTensor:
        """The constant of a key; `make` gives its array the first time."""
        if key not in self._tensors:
            array = make()
            self._budget.add_value(array)
            self._alive.append(array)
            record = TensorProto(data_type=dtypes.to_onnx(array.dtype), raw_data=array.tobytes())
            self._record(key, record, "constant", array.dtype, array.shape)
        return self._tensors[key]

    def array(self, array: NDArray[np.generic]) -> OnnxTensor:
        """An array as a constant; the same array gives the same one."""
        return self.constant(id(array), lambda: array)

    def number(self, value: bool | int | float, dtype: np.dtype[np.generic] | None) -> OnnxTensor:
        """A Python number as a 0-d constant, by default of bool, int64 or float32."""
        array = np.asarray(value, dtype or _default_dtype(value))
        return self.constant((type(value), repr(value), array.dtype), lambda: array)

    def weight(self, key: str, weight: StoredWeight, location: str) -> OnnxTensor:
        """A parameter that stays in its file, `location`, a path relative to the model's folder."""
        if not weight.length:
            return self.constant(("empty", key), lambda: np.zeros(weight.shape, weight.dtype))
        if ("weight", key) not in self._tensors:
            record = TensorProto(
                data_type=dtypes.to_onnx(weight.dtype), data_location=TensorProto.EXTERNAL
            )
            extent = {"location": location, "offset": weight.offset, "length": weight.length}
            for entry, text in extent.items():
                record.external_data.add(key=entry, value=str(text))
            self._record(("weight", key), record, weight.name, weight.dtype, weight.shape)
        return self._tensors["weight", key]

    def integer(self, tensor: OnnxTensor) -> int | None:
        """The number in a constant of one int64; None for other tensors."""
        record = self.records.get(tensor.name)
        if record is None or tensor.dtype != np.int64 or tensor.shape != () or not record.raw_data:
            return None
        return int.from_bytes(record.raw_data, sys.byteorder, signed=True)

    def _record(
        self,
        key: Hashable,
        record: TensorProto,
        stem: str,
        dtype: np.dtype[np.generic],
        shape: tuple[int, ...],
    ) -> None:
        record.name = self._names.fresh(stem)
        record.dims.extend(shape)
        self.records[record.name] = record
        self._tensors[key] = OnnxTensor(record.name, dtype, shape)


def _default_dtype(value: bool | int | float) -> type[np.generic]:
    if isinstance(value, bool):
        return np.bool_
    return np.int64 if isinstance(value, int) else np.float32
