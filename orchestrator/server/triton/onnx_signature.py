"""Signature of an ONNX file: finds its inputs and outputs in place, without reading weights."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass

from ....comm.errors import UsageError
from ....comm.host.regular_file import open_regular
from ....comm.wire_fields import BYTES, Buffer, WireError, WireField, fields, read_varint

# Numbers of fields in onnx.proto.
_GRAPH = 7
_INITIALIZER, _INPUT, _OUTPUT = 5, 11, 12
_INITIALIZER_NAME = 8
_NAME, _TYPE = 1, 2
_TENSOR = 1
_ELEMENTS, _SHAPE = 1, 2
_DIMENSION = 1
_SIZE = 1

DATA_TYPES = {
    1: "TYPE_FP32",
    2: "TYPE_UINT8",
    3: "TYPE_INT8",
    4: "TYPE_UINT16",
    5: "TYPE_INT16",
    6: "TYPE_INT32",
    7: "TYPE_INT64",
    8: "TYPE_STRING",
    9: "TYPE_BOOL",
    10: "TYPE_FP16",
    11: "TYPE_FP64",
    12: "TYPE_UINT32",
    13: "TYPE_UINT64",
    16: "TYPE_BF16",
}
"""By ONNX's number of an element type, its name in Triton's configurations."""


@dataclass(frozen=True, slots=True)
class TensorSignature:
    """One input or output: its type by Triton's name, and its shape (-1: any size; None: any
    rank).
    """

    name: str
    data_type: str
    shape: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class OnnxSignature:
    """The inputs that have no default, and the outputs, in the order of the file."""

    inputs: tuple[TensorSignature, ...]
    outputs: tuple[TensorSignature, ...]


def read_signature(path: str) -> OnnxSignature:
    """The signature of the ONNX file at `path`.

    Raises UsageError where it cannot be read, is not an ONNX file, or has other values than
    tensors.
    """
    try:
        with open_regular(path) as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
            with memoryview(mapped) as content:
                return _signature(content)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}.") from None
    except ValueError as error:  # of WireError too, and of mmap for an empty file
        raise UsageError(f"{path}: is no ONNX model: {error}.") from None


def _signature(content: Buffer) -> OnnxSignature:
    graph = _only(content, WireField(0, BYTES, 0, 0, len(content)), _GRAPH)
    if graph is None:
        raise ValueError("it has no graph")
    defaults, inputs, outputs = set[str](), [], []
    for field in _inside(content, graph):
        if field.number == _INITIALIZER:
            defaults.add(_text(content, _only(content, field, _INITIALIZER_NAME)))
        elif field.number == _INPUT:
            inputs.append(field)
        elif field.number == _OUTPUT:
            outputs.append(field)
    found = [_tensor(content, field) for field in outputs]
    named = [(_text(content, _only(content, field, _NAME)), field) for field in inputs]
    given = [_tensor(content, field) for name, field in named if name not in defaults]
    return OnnxSignature(tuple(given), tuple(found))


def _tensor(content: Buffer, value: WireField) -> TensorSignature:
    name = _text(content, _only(content, value, _NAME))
    kind = _only(content, value, _TYPE)
    tensor = None if kind is None else _only(content, kind, _TENSOR)
    if tensor is None:
        raise ValueError(f"the input or output '{name}' is no tensor")
    number = _number(content, _only(content, tensor, _ELEMENTS))
    if number not in DATA_TYPES:
        raise ValueError(f"the input or output '{name}' has elements of the type {number}")
    shape = _only(content, tensor, _SHAPE)
    sizes = None if shape is None else tuple(_sizes(content, shape))
    return TensorSignature(name, DATA_TYPES[number], sizes)


def _sizes(content: Buffer, shape: WireField) -> Iterator[int]:
    """The dimensions of a shape; -1 where one has a name or nothing."""
    for field in _inside(content, shape):
        if field.number == _DIMENSION:
            size = _only(content, field, _SIZE)
            yield -1 if size is None else _number(content, size)


def _inside(content: Buffer, message: WireField) -> Iterator[WireField]:
    return fields(content, message.start, message.end)


def _only(content: Buffer, message: WireField, number: int) -> WireField | None:
    """The last field of this number, as protobuf has it; None where there is none."""
    found = None
    for field in _inside(content, message):
        if field.number == number:
            found = field
    return found


def _text(content: Buffer, field: WireField | None) -> str:
    return "" if field is None else str(content[field.start : field.end], "utf-8")


def _number(content: Buffer, field: WireField | None) -> int:
    if field is None:
        return 0
    value, end = read_varint(content, field.start, field.end)
    if end != field.end:
        raise WireError(field.start, "a number is malformed")
    return value
