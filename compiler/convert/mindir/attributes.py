"""Attributes of MindIR: constants and types, as MindSpore 2.10 encodes them (docs/mindir.md)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...element_types import dtypes
from ...element_types.value_types import OtherType, ScalarType, TensorType, TupleType
from ...mindir.graph import Constant, Monad
from ...mindir.mindir_pb2 import AttributeProto, TensorProto
from .values import ClosureType, ResultType

_FLOAT, _INT64, _STRING, _BOOL = 1, 7, 8, 9
_TENSORS, _TUPLE, _U_MONAD, _NONE, _SCALAR = 19, 20, 23, 25, 39
_CLOSURE, _CLOSURES = 27, 29


def constant_attribute(name: str, value: Constant, *, nested: bool = False) -> AttributeProto:
    """A constant as an attribute.

    A scalar stands in a singular field, and `nested` in a tuple in a plural one. Takes bool, int,
    float, str, None, MONAD, a numpy dtype, an array, and tuples of these; in tuples integers of
    numpy, too. TypeError for others.
    """
    record = AttributeProto(name=name)
    if isinstance(value, tuple):
        record.type = _TUPLE
        record.values.extend(
            constant_attribute(f"{name}[{index}]", one, nested=True)
            for index, one in enumerate(value)
        )
    elif value is None or isinstance(value, Monad):
        record.type = _NONE if value is None else _U_MONAD
    elif isinstance(value, np.dtype):
        record.type = _TENSORS
        record.tensors.add(data_type=dtypes.to_mindir(value))
    elif isinstance(value, np.ndarray):
        record.type = _TENSORS
        record.tensors.append(tensor_record("value0", value))
    else:
        _set_scalar(record, value, nested)
    return record


def _set_scalar(record: AttributeProto, value: Any, nested: bool) -> None:
    """Enter a Python scalar; bool first, as a bool is an int."""
    if isinstance(value, np.integer):
        record.type = dtypes.to_mindir(value.dtype)
        record.ints.append(int(value))
    elif isinstance(value, bool | int):
        record.type = _BOOL if isinstance(value, bool) else _INT64
        if nested:
            record.ints.append(int(value))
        else:
            record.i = int(value)
    elif isinstance(value, float):
        record.type = _FLOAT
        if nested:
            record.floats.append(value)
        else:
            record.f = value
    elif isinstance(value, str):
        record.type = _STRING
        if nested:
            record.strings.append(value.encode())
        else:
            record.s = value.encode()
    else:
        raise TypeError(f"a MindIR constant cannot be a {type(value).__name__}")


def tensor_record(name: str, value: np.ndarray) -> TensorProto:
    """A tensor with its elements, row-major and little endian."""
    return TensorProto(
        name=name,
        dims=value.shape,
        data_type=dtypes.to_mindir(value.dtype),
        raw_data=value.astype(value.dtype.newbyteorder("<"), copy=False).tobytes(),
    )


def type_record(name: str, kind: TensorType) -> TensorProto:
    """A tensor without elements: its dtype and its shape, in which -1 is an open size."""
    dims = (-2,) if kind.shape is None else kind.shape
    return TensorProto(name=name, dims=dims, data_type=dtypes.to_mindir(kind.dtype))


def type_attribute(kind: ResultType, name: str = "shape") -> AttributeProto:
    """A type, as the attribute `shape` of a node describes it."""
    record = AttributeProto(name=name)
    if isinstance(kind, ClosureType):
        _set_closures(record, kind)
    elif isinstance(kind, TensorType):
        record.type = _TENSORS
        record.tensors.append(type_record("", kind))
    elif isinstance(kind, ScalarType):
        record.type = _SCALAR
        record.tensors.add(dims=[0], data_type=dtypes.to_mindir(kind.dtype))
    elif isinstance(kind, TupleType):
        record.type = _TUPLE
        items = [type_attribute(one) for one in kind.items or ()]
        record.seq_info.is_dyn_len = kind.items is None
        record.values.extend(items)
    else:
        record.type = _U_MONAD if kind == OtherType("monad") else _NONE
    return record


def _set_closures(record: AttributeProto, kind: ClosureType) -> None:
    """Enter one function, or a union of several."""
    if len(kind.functions) == 1:
        record.type = _CLOSURE
        record.s = kind.functions[0].encode()
        return
    record.type = _CLOSURES
    for name in kind.functions:
        record.values.add(type=_CLOSURE, s=name.encode())
