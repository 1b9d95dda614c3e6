"""Wire format of inference: tensors stay outside of the protobuf messages, which would copy them
three times.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ....comm.errors import InputError
from .calls import parsed
from .contents.message_bounds import require_few, require_light, varint
from .protocol.inference import InferParameter, ModelInferRequest, ModelInferResponse

_DELIMITED = 2
_RAW_INPUT = 7 << 3 | _DELIMITED
_RAW_OUTPUT = bytes([6 << 3 | _DELIMITED])
_RESPONSE_ID = bytes([3 << 3 | _DELIMITED])
_STREAMED_ANSWER = bytes([2 << 3 | _DELIMITED])
_MORE = 0x80
_FINAL = ModelInferResponse(
    parameters={"triton_final_response": InferParameter(bool_param=True)}
).SerializeToString()
"""A response that tells no more than that no other one follows: fields of a message may come in any
order, and its bytes behind those of another one belong to that.
"""


class DecodedRequest(NamedTuple):
    """A request: the `message` without its raw contents, and these.

    `starts` tell where in `body` they begin, if they are in place there.
    """

    body: bytes
    message: ModelInferRequest
    raw: Sequence[memoryview | bytes]
    starts: Sequence[int]

    @property
    def decoded(self) -> int:
        """How many of its bytes are decoded, and not used in place."""
        return len(self.body) - sum(map(len, self.raw))

    def around(self) -> list[tuple[int, bytes]]:
        """The bytes around the raw contents that are in place: where each part begins, and it."""
        parts = []
        at = 0
        for start, tensor in zip(self.starts, self.raw, strict=True):
            parts.append((at, self.body[at:start]))
            at = start + len(tensor)
        if at < len(self.body):
            parts.append((at, self.body[at:]))
        return parts


def decoded(body: bytes) -> DecodedRequest:
    """A request, its raw contents in place where that can be. Raises InputError."""
    try:
        head, tensors, starts = _split(body)
        require_light(head)
    except IndexError:
        raise InputError(f"got {len(body)} bytes that are no ModelInferRequest.") from None
    message = parsed(ModelInferRequest, head)
    return DecodedRequest(body, message, tensors or message.raw_input_contents, starts)


def encoded(head: ModelInferResponse, tensors: Sequence[memoryview | bytes]) -> bytes:
    """A response, with its raw contents behind all else."""
    parts: list[memoryview | bytes] = [head.SerializeToString()]
    for tensor in tensors:
        parts += (_RAW_OUTPUT, _length(len(tensor)), tensor)
    return b"".join(parts)


def output_frames(head: ModelInferResponse, sizes: Sequence[int]) -> list[bytes]:
    """The bytes of a response before each of its raw contents, of these sizes: one or more."""
    frames = [_RAW_OUTPUT + _length(size) for size in sizes]
    return [head.SerializeToString() + frames[0], *frames[1:]]


def identified(response: bytes, name: str) -> bytes:
    """A response without an id, with this one."""
    given = name.encode()
    return b"".join((response, _RESPONSE_ID, _length(len(given)), given))


def streamed(response: bytes) -> bytes:
    """A response as a ModelStreamInferResponse, the final one to its request."""
    return b"".join((_STREAMED_ANSWER, _length(len(response) + len(_FINAL)), response, _FINAL))


def _split(body: bytes) -> tuple[bytes, list[memoryview], list[int]]:
    """A request's bytes without its raw contents, these, and where they begin. All of its fields
    have a length: with one that has none nothing is taken out.
    """
    view = memoryview(body)
    kept: list[memoryview] = []
    tensors: list[memoryview] = []
    starts: list[int] = []
    at = begin = 0
    count = 0
    while at < len(body):
        tag, start = body[at], at
        count += 1
        require_few(count)
        if tag >= _MORE or tag & 7 != _DELIMITED:
            return body, [], []
        length, at = varint(body, at + 1)
        at += length
        if at > len(body):
            raise IndexError
        if tag == _RAW_INPUT:
            kept.append(view[begin:start])
            tensors.append(view[at - length : at])
            starts.append(at - length)
            begin = at
    kept.append(view[begin:])
    return b"".join(kept), tensors, starts


def _length(value: int) -> bytes:
    digits = bytearray()
    while value >= _MORE:
        digits.append(value & 0x7F | _MORE)
        value >>= 7
    digits.append(value)
    return bytes(digits)
