"""File writer: a MindIR model and its weights, streamed from where they lie.

A model whose weights take 1 GiB or less is one file. Those of a larger one lie in a file of their
own, as MindSpore writes them (docs/mindir.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...mindir.mindir_pb2 import GraphProto, ModelProto
from .segmented_file import FileRange, SegmentedFile

SINGLE_FILE = 1 << 30
"""Bytes of the weights that one file may hold."""

_GRAPH, _PARAMETER, _RAW_DATA = 7, 3, 9
_LENGTH_DELIMITED = 2
_CHUNK = 4 << 20
_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class WeightElements:
    """The elements of one parameter, in its order; `read` gives the array, of which views are
    written.
    """

    name: str
    dtype: np.dtype[np.generic]
    nbytes: int
    read: Callable[[], np.ndarray]
    place: FileRange | None = None
    """Where the same bytes lie in a file."""


def write_single(file: SegmentedFile, model: ModelProto, weights: Sequence[WeightElements]) -> None:
    """Write a model with the elements of its weights into one file.

    A protobuf message may have its fields in any order. The parameters of the graph come last, so
    that only one of them is in memory at a time.
    """
    head = _without_graph(model)
    graph = _without_parameters(model.graph)
    records = [
        _with_data(record.SerializeToString(), one.nbytes)
        for record, one in zip(model.graph.parameter, weights, strict=True)
    ]
    length = len(graph) + sum(
        len(begin) + one.nbytes for begin, one in zip(records, weights, strict=True)
    )
    file.write(head)
    file.write(_tag(_GRAPH) + _varint(length))
    file.write(graph)
    for begin, one in zip(records, weights, strict=True):
        file.write(begin)
        _write_elements(file, one)
    file.end_segment()


def write_variables(
    file: SegmentedFile, weights: Sequence[WeightElements]
) -> list[tuple[int, int]]:
    """Write the elements of weights as MindSpore's file of variables; returns the offset and the
    length of each.

    64 bytes come first, of which the first says that the file is little endian. Each tensor is
    padded to a multiple of 64 bytes, and is a segment of its own.
    """
    file.write(b"\1" + bytes(_ALIGNMENT - 1))
    file.end_segment()
    places, offset = [], _ALIGNMENT
    for one in weights:
        places.append((offset, one.nbytes))
        _write_elements(file, one)
        padding = -one.nbytes % _ALIGNMENT
        file.write(bytes(padding))
        file.end_segment()
        offset += one.nbytes + padding
    return places


def _write_elements(file: SegmentedFile, weight: WeightElements) -> None:
    if weight.place is None or not file.copy(weight.place):
        for part in chunks(weight):
            file.write(part)


def chunks(weight: WeightElements) -> Iterator[memoryview]:
    """The bytes of a weight, row-major and little endian, in parts of at most 4 MiB."""
    flat = np.ascontiguousarray(weight.read()).reshape(-1)
    step = max(1, _CHUNK // max(1, flat.itemsize))
    for start in range(0, flat.size, step):
        part = flat[start : start + step].astype(weight.dtype, copy=False)
        yield part.view(np.uint8).data


def _without_graph(model: ModelProto) -> bytes:
    head = ModelProto()
    head.CopyFrom(model)
    head.ClearField("graph")
    return head.SerializeToString()


def _without_parameters(graph: GraphProto) -> bytes:
    bare = GraphProto()
    bare.CopyFrom(graph)
    bare.ClearField("parameter")
    return bare.SerializeToString()


def _with_data(record: bytes, nbytes: int) -> bytes:
    """The bytes before the elements of a parameter in the message of its graph."""
    raw = _tag(_RAW_DATA) + _varint(nbytes)
    return _tag(_PARAMETER) + _varint(len(record) + len(raw) + nbytes) + record + raw


def _tag(number: int) -> bytes:
    return _varint(number << 3 | _LENGTH_DELIMITED)


def _varint(value: int) -> bytes:
    """https://protobuf.dev/programming-guides/encoding/#varints"""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
