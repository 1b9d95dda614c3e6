"""Samples of weights: a bounded number of bytes that tell two weights apart, or all bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from math import prod
from typing import NamedTuple

from onnx import TensorProto, numpy_helper

from ...comm.digest import blake2b
from ...compiler.element_types import dtypes
from ...compiler.onnx_graph.external import external_place

_PIECES, _PIECE = 6, 512
"""The number of places of a weight at which bytes are read, and the bytes at each: 3 KiB in all,
whatever the weight's size.
"""

_BLOCK = 4 << 20
_INDICES = frozenset((TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING))
"""The types of shapes, axes and token numbers, which all ranks have in common."""


class Sample(NamedTuple):
    """The hash of the bytes read of a tensor.

    `telling`: the tensor distinguishes one shard from others, as its numbers differ.
    """

    digest: bytes
    telling: bool


class ContentSampler:
    """A sampler of a model's tensors, whose files lie in `folder`, or as plain text in `memory`.

    It is a context manager, which closes the files.
    """

    def __init__(self, folder: str, memory: Mapping[str, memoryview], whole: bool) -> None:
        """With `whole` every byte of a tensor is read."""
        self._folder = folder
        self._memory = memory
        self._whole = whole
        self._files: dict[str, int] = {}

    def __enter__(self) -> ContentSampler:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self._files.values():
            os.close(descriptor)

    def sample(self, tensor: TensorProto) -> Sample:
        """Sample a tensor, independent of its name. Raises OSError where its file cannot be
        read.
        """
        digest = blake2b(f"{tensor.data_type} {list(tensor.dims)}".encode(), digest_size=16)
        width, first, telling = _width(tensor), b"", False
        for piece in self._pieces(tensor, width):
            digest.update(piece)
            first = first or piece[:width]
            telling = telling or piece != first * (len(piece) // max(1, len(first)))
        return Sample(digest.digest(), telling and tensor.data_type not in _INDICES)

    def _pieces(self, tensor: TensorProto, width: int) -> Iterator[bytes]:
        if tensor.data_location != TensorProto.EXTERNAL:
            yield tensor.raw_data or _typed_data(tensor)
            return
        size, (location, at) = _size(tensor), external_place(tensor)
        for start, length in _blocks(size) if self._whole else _places(size, width):
            if location in self._memory:
                yield bytes(self._memory[location][at + start : at + start + length])
            else:
                yield os.pread(self._file(location), length, at + start)

    def _file(self, location: str) -> int:
        if location not in self._files:
            self._files[location] = os.open(
                os.path.join(self._folder, location), os.O_RDONLY | os.O_CLOEXEC
            )
        return self._files[location]


def _typed_data(tensor: TensorProto) -> bytes:
    if tensor.data_type == TensorProto.STRING:
        return b"\0".join(tensor.string_data)
    array: bytes = numpy_helper.to_array(tensor).tobytes()
    return array


def _width(tensor: TensorProto) -> int:
    """The bytes of one element; 1 for packed types."""
    try:
        return dtypes.from_onnx(tensor.data_type).itemsize
    except ValueError:
        return 1


def _size(tensor: TensorProto) -> int:
    """The bytes of an external tensor. Raises ValueError where only the end of its file would
    tell.
    """
    try:
        return prod(tensor.dims) * dtypes.from_onnx(tensor.data_type).itemsize
    except ValueError:
        return int({entry.key: entry.value for entry in tensor.external_data}.get("length", ""))


def _blocks(size: int) -> Iterator[tuple[int, int]]:
    return ((start, min(_BLOCK, size - start)) for start in range(0, size, _BLOCK))


def _places(size: int, width: int) -> Iterator[tuple[int, int]]:
    """The offset and length of each piece: whole elements, from the first to the last."""
    if size <= _PIECES * _PIECE:
        yield 0, size
        return
    for number in range(_PIECES):
        yield number * (size - _PIECE) // (_PIECES - 1) // width * width, _PIECE
