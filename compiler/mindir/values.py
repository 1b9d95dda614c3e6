"""Decoding of attributes: constants, attribute values and types (docs/mindir.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..element_types import dtypes
from ..element_types.value_types import OtherType, ScalarType, TensorType, TupleType, ValueType
from .graph import MONAD, MOST_DIMENSIONS, Constant, NameConstant
from .mindir_pb2 import AttributeProto, TensorProto, ValueInfoProto
from .old_grammar import Tree, entries, is_old, kind_and_tree

_TENSORS, _TUPLE, _LIST, _DICT, _U_MONAD, _IO_MONAD, _NONE = 19, 20, 21, 22, 23, 24, 25
_CLOSURES = (26, 27, 28, 29)
_NAMES = (33, 34, 35, 36)
_SCALAR = 39
_DEPTH = 32


def constant(attribute: AttributeProto, depth: int = 0) -> Constant:
    """The Python value of an attribute; ValueError says what cannot be read.

    Scalars stand in a singular field at top level and in the plural one inside tuples: both are
    read.
    """
    if depth > _DEPTH:
        raise ValueError(f"values nest deeper than {_DEPTH} levels")
    if is_old(attribute):
        return _old_constant(attribute)
    kind = attribute.type
    if kind in (_TUPLE, _LIST):
        return tuple(constant(child, depth + 1) for child in attribute.values)
    if kind == _DICT:
        return {
            child.name: constant(child.values[0], depth + 1)
            for child in attribute.values
            if child.values
        }
    if kind in (_U_MONAD, _IO_MONAD):
        return MONAD
    if kind in (0, _NONE):
        return None
    if kind == _TENSORS or kind == 17:
        return _tensor_or_dtype(attribute)
    if kind in _NAMES or kind in _CLOSURES:
        return NameConstant(_text(attribute.s))
    return _scalar(attribute)


def _tensor_or_dtype(attribute: AttributeProto) -> Constant:
    records = list(attribute.tensors) or ([attribute.t] if attribute.HasField("t") else [])
    if not records:
        raise ValueError(f"attribute '{attribute.name}' says tensor and holds none")
    return _record(records[0])


def _record(record: TensorProto) -> Constant:
    if not record.HasField("raw_data"):
        return dtypes.from_mindir(
            record.data_type
        )  # the only mark that tells a dtype from a tensor
    return tensor(record)


def _old_constant(attribute: AttributeProto) -> Constant:
    kind, tree = kind_and_tree(attribute)
    if kind == "none":
        return None
    if kind == "Monad":
        return MONAD
    if kind in ("scalar", "tensor", "type"):
        return entries(attribute, tree, _record)
    raise ValueError(
        f"attribute '{attribute.name}' has the description '{attribute.ref_attr_name}', which is "
        f"unknown"
    )


def tensor(record: TensorProto) -> NDArray[Any]:
    """The array of a tensor record that carries its data; ValueError where sizes disagree."""
    dtype = dtypes.from_mindir(record.data_type)
    shape = tuple(record.dims)
    check_dimensions(f"tensor '{record.name}'", shape)
    if any(dim < 0 for dim in shape):
        raise ValueError(f"tensor '{record.name}' has data and an unknown dimension: {list(shape)}")
    check_size(f"tensor '{record.name}'", dtype, shape, len(record.raw_data))
    return np.frombuffer(record.raw_data, dtype).reshape(shape)


def check_size(what: str, dtype: np.dtype[np.generic], shape: tuple[int, ...], length: int) -> None:
    """Refuse data whose length is not that of the dtype and shape."""
    check_dimensions(what, shape)
    expected = dtype.itemsize
    for dim in shape:
        expected *= dim
    if expected != length:
        raise ValueError(f"{what} of {dtype}{list(shape)} needs {expected} bytes and has {length}")


def check_dimensions(what: str, shape: tuple[int, ...]) -> None:
    """Refuse more dimensions than arrays have."""
    if len(shape) > MOST_DIMENSIONS:
        raise ValueError(f"{what} has {len(shape)} dimensions, expected at most {MOST_DIMENSIONS}")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _first(singular: str, plural: str) -> Callable[[AttributeProto], Any]:
    def read(attribute: AttributeProto) -> Any:
        many = getattr(attribute, plural)
        return many[0] if many else getattr(attribute, singular)

    return read


_integer, _float = _first("i", "ints"), _first("f", "floats")
_double, _bytes = _first("d", "doubles"), _first("s", "strings")


def _scalar(attribute: AttributeProto) -> Constant:
    kind = attribute.type
    if kind == 1:
        return _float(attribute)
    if kind == 8:
        return _text(_bytes(attribute))
    if kind == 9:
        return bool(_integer(attribute))
    if kind == 11:
        return _double(attribute)
    if kind == 10 or kind == 16:
        return _float(attribute)
    if kind in (2, 3, 4, 5, 6, 7, 12, 13):
        return int(_integer(attribute))
    raise ValueError(f"attribute '{attribute.name}' has the type {kind}, which is not supported")


def value_type(attribute: AttributeProto, depth: int = 0) -> ValueType:
    """The type that a `shape` attribute describes."""
    if depth > _DEPTH:
        raise ValueError(f"types nest deeper than {_DEPTH} levels")
    if is_old(attribute):
        types = {record.name: tensor_type(record) for record in attribute.tensors}
        return _old_type(kind_and_tree(attribute)[1], types)
    kind = attribute.type
    if kind in (_TUPLE, _LIST):
        if attribute.HasField("seq_info") and attribute.seq_info.is_dyn_len:
            return TupleType(None)
        return TupleType(tuple(value_type(child, depth + 1) for child in attribute.values))
    if kind == _SCALAR and attribute.tensors:
        return ScalarType(dtypes.from_mindir(attribute.tensors[0].data_type))
    if attribute.tensors:
        return tensor_type(attribute.tensors[0])
    if kind in (_U_MONAD, _IO_MONAD):
        return OtherType("monad")
    return OtherType("closure" if kind in _CLOSURES else "none")


def _old_type(tree: Tree, types: Mapping[str, ValueType]) -> ValueType:
    if isinstance(tree, str):
        return types.get(tree) or OtherType("monad" if "Monad" in tree else "none")
    return TupleType(tuple(_old_type(item, types) for item in tree))


def tensor_type(record: TensorProto) -> ValueType:
    """dtype and shape of a tensor record; [-2] means an unknown rank."""
    if record.data_type == 8:
        return OtherType("text")
    shape = tuple(record.dims)
    check_dimensions(f"tensor '{record.name}'", shape)
    if any(dim < -2 for dim in shape):
        raise ValueError(f"tensor '{record.name}' has the impossible shape {list(shape)}")
    return TensorType(dtypes.from_mindir(record.data_type), None if -2 in shape else shape)


def info_type(info: ValueInfoProto) -> ValueType:
    """The type of a graph's input or output."""
    if "Monad" in info.denotation:
        return OtherType("monad")
    if len(info.tensor) > 1:  # as releases 1.x wrote several results
        return TupleType(tuple(tensor_type(record) for record in info.tensor))
    if info.tensor:
        return tensor_type(info.tensor[0])
    if info.HasField("attr_info"):
        return value_type(info.attr_info)
    return OtherType(info.denotation or "none")


def attributes(records: Iterable[AttributeProto]) -> dict[str, Constant]:
    """All attributes of a primitive by name; one that cannot be read is left out.

    Primitives carry notes (strategies, mirrors) of any kind beside what they compute with; a
    lowering that misses an attribute it needs says so.
    """
    found: dict[str, Constant] = {}
    for record in records:
        try:
            found[record.name] = constant(record)
        except ValueError:
            continue
    return found
