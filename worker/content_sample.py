"""Samples of weights: a bounded number of bytes that tell two weights apart, or all of them where that is asked."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from math import prod
from types import TracebackType
from typing import NamedTuple

from onnx import TensorProto, numpy_helper

from . import dtypes
from .digest import blake2b
from .external import external_place

_PIECES, _PIECE = 6, 512
"""At how many places of a weight bytes are read, and how many at each: 3 KiB, whatever its size."""

_BLOCK = 4 << 20
_INDICES = frozenset((TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING))
"""The types of shapes, axes and token numbers, which all ranks have in common."""


class Sample(NamedTuple):
    """What was read of a tensor, hashed, and whether it tells a shard from others: it has different numbers in it."""

    digest: bytes
    telling: bool


class ContentSampler:
    """Samples the tensors of a model whose files lie in `folder`, or as plain text in `memory`; a context manager."""

    def __init__(self, folder: str, memory: Mapping[str, memoryview], whole: bool) -> None:
        """With `whole` every byte is read."""
        self._folder, self._memory, self._whole = folder, memory, whole
        self._files: dict[str, int] = {}

    def __enter__(self) -> ContentSampler:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        for descriptor in self._files.values():
            os.close(descriptor)

    def sample(self, tensor: TensorProto) -> Sample:
        """The sample of a tensor, whatever its name. Raises OSError where its file cannot be read."""
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
                yield bytes(self._memory[location][at + start:at + start + length])
            else:
                yield os.pread(self._file(location), length, at + start)

    def _file(self, location: str) -> int:
        if location not in self._files:
            self._files[location] = os.open(os.path.join(self._folder, location), os.O_RDONLY | os.O_CLOEXEC)
        return self._files[location]


def _typed_data(tensor: TensorProto) -> bytes:
    if tensor.data_type == TensorProto.STRING:
        return b"\0".join(tensor.string_data)
    array: bytes = numpy_helper.to_array(tensor).tobytes()
    return array


def _width(tensor: TensorProto) -> int:
    """Bytes of one element; 1 for packed types."""
    try:
        return dtypes.from_onnx(tensor.data_type).itemsize
    except ValueError:
        return 1


def _size(tensor: TensorProto) -> int:
    """Bytes of an external tensor. Raises ValueError where only its file's end would tell."""
    try:
        return prod(tensor.dims) * dtypes.from_onnx(tensor.data_type).itemsize
    except ValueError:
        return int({entry.key: entry.value for entry in tensor.external_data}.get("length", ""))


def _blocks(size: int) -> Iterator[tuple[int, int]]:
    return ((start, min(_BLOCK, size - start)) for start in range(0, size, _BLOCK))


def _places(size: int, width: int) -> Iterator[tuple[int, int]]:
    """Whole elements, from the first to the last."""
    if size <= _PIECES * _PIECE:
        yield 0, size
        return
    for number in range(_PIECES):
        yield number * (size - _PIECE) // (_PIECES - 1) // width * width, _PIECE
