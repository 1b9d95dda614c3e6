"""Protobuf wire format: weights cut out of a message, which stay in the file.

Python's protobuf copies every bytes field. A weight file of gigabytes must stay mapped, so the raw
data of weights are cut out (their place is noted) before protobuf parses the small rest. ONNX
numbers a model's graph and a tensor's raw data as MindIR does, and a graph's weights otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

from ...comm.wire_fields import BYTES, Buffer, WireError, WireField, fields

PARAMETER, INITIALIZER = 3, 5
"""The weights of a graph, in MindIR and in ONNX."""
_MODEL_GRAPH, _TENSOR_RAW_DATA = 7, 9
_LONGEST = (1 << 31) - 1


class CutMessage(NamedTuple):
    """A model without its weights, and (start, length) of each weight, None if not cut out."""

    message: bytes
    weights: list[tuple[int, int] | None]


def write_varint(value: int) -> bytes:
    """`value` (not negative) as a varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def cut_weights(buffer: Buffer, kind: int = PARAMETER, least: int = 0) -> CutMessage:
    """Take the raw data of the entry graph's weights, fields `kind`, out of a serialized model.

    Those of less than `least` bytes stay.
    """
    weights: list[tuple[int, int] | None] = []
    pieces: list[bytes] = []
    for field in fields(buffer, 0, len(buffer)):
        if field.number == _MODEL_GRAPH and field.wire_type == BYTES:
            pieces.append(
                _framed(_MODEL_GRAPH, _graph_without_weights(buffer, field, kind, least, weights))
            )
        else:
            pieces.append(_copied(buffer, field.tag, field.end))
    return CutMessage(b"".join(pieces), weights)


def _graph_without_weights(
    buffer: Buffer, graph: WireField, kind: int, least: int, weights: list[tuple[int, int] | None]
) -> bytes:
    pieces: list[bytes] = []
    run = graph.start
    for field in fields(buffer, graph.start, graph.end):
        if field.number == kind and field.wire_type == BYTES:
            pieces.append(_copied(buffer, run, field.tag))
            pieces.append(_framed(kind, _tensor_without_data(buffer, field, least, weights)))
            run = field.end
    pieces.append(_copied(buffer, run, graph.end))
    return b"".join(pieces)


def _tensor_without_data(
    buffer: Buffer, tensor: WireField, least: int, weights: list[tuple[int, int] | None]
) -> bytes:
    pieces: list[bytes] = []
    place: tuple[int, int] | None = None
    for field in fields(buffer, tensor.start, tensor.end):
        if (
            field.number == _TENSOR_RAW_DATA
            and field.wire_type == BYTES
            and field.end - field.start >= least
        ):
            place = (field.start, field.end - field.start)
        else:
            pieces.append(_copied(buffer, field.tag, field.end))
    weights.append(place)
    return b"".join(pieces)


def _copied(buffer: Buffer, start: int, end: int) -> bytes:
    """A part of the small rest; WireError where it is so long that protobuf would refuse it."""
    if end - start > _LONGEST:
        raise WireError(
            start, f"{end - start} bytes that are no weights, more than protobuf reads,"
        )
    return bytes(buffer[start:end])


def _framed(number: int, payload: bytes) -> bytes:
    return write_varint(number << 3 | BYTES) + write_varint(len(payload)) + payload
