"""Weights in one memory file: what is where stands at its start, so that who is handed the file needs nothing else."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from math import prod
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ...comm.errors import UsageError
from ...comm.sharing.memory_file import MemoryFile, map_read_only
from .. import dtypes
from ..mindir.graph import TensorType

Array = NDArray[Any]
_LENGTH = struct.Struct("<Q")
_ALIGN = 4096
_FINE = 64  # bytes, for tensors that are smaller than a page


class Place(msgspec.Struct, frozen=True):
    """One tensor's ONNX element type and shape, and the offsets of its copies in bytes."""

    type: int
    shape: tuple[int, ...]
    offsets: tuple[int, ...]


class WeightFile:
    """Tensors by name, each in as many copies as the file was made for."""

    def __init__(self, places: Mapping[str, Place], view: memoryview, memory: MemoryFile | None = None) -> None:
        self._memory = memory
        self.arrays: dict[str, tuple[Array, ...]] = {
            name: tuple(_array(view, place, offset) for offset in place.offsets) for name, place in places.items()}

    @classmethod
    def create(cls, label: str, kinds: Mapping[str, TensorType], copies: int = 1) -> WeightFile:
        """A new file of this process's for tensors of these types, all zero, with writable `arrays`."""
        start = _round(_LENGTH.size + len(_ENCODE(_lay_out(kinds, copies, 2**62)[0])))  # the longest it can be
        places, size = _lay_out(kinds, copies, start)
        memory, header = MemoryFile(label, max(size, start)), _ENCODE(places)
        memory.bytes[:_LENGTH.size] = _LENGTH.pack(len(header))
        memory.bytes[_LENGTH.size:_LENGTH.size + len(header)] = header
        return cls(places, memory.bytes, memory)

    @classmethod
    def open(cls, fd: int) -> WeightFile:
        """The file behind a descriptor that its maker handed over, with read-only `arrays`."""
        try:
            view = map_read_only(fd)
            (length,) = _LENGTH.unpack_from(view)
            return cls(_DECODE(view[_LENGTH.size:_LENGTH.size + length]), view)
        except (ValueError, OSError, struct.error, msgspec.DecodeError) as error:
            raise UsageError(f"the owner of the weights handed over what is no file of weights ({error}): run both "
                             f"with the same version of Rankmesh.") from error

    @property
    def fd(self) -> int:
        """The read-only descriptor to hand over, of files made here."""
        assert self._memory is not None
        return self._memory.fd

    def close(self) -> None:
        """Let go of the descriptor; arrays stay."""
        if self._memory:
            self._memory.close()


def _lay_out(kinds: Mapping[str, TensorType], copies: int, start: int) -> tuple[dict[str, Place], int]:
    """Where everything goes behind `start`, and the size of it all."""
    places, end = {}, start
    for name, kind in kinds.items():
        size, offsets = _bytes(kind), []
        for _ in range(copies):
            end = _round(end, _ALIGN if size >= _ALIGN else _FINE)
            offsets.append(end)
            end += size
        assert kind.shape is not None
        places[name] = Place(dtypes.to_onnx(kind.dtype), kind.shape, tuple(offsets))
    return places, end


def _bytes(kind: TensorType) -> int:
    assert kind.shape is not None
    return prod(kind.shape) * kind.dtype.itemsize


def _round(size: int, step: int = _ALIGN) -> int:
    return -(-size // step) * step


def _array(view: memoryview, place: Place, offset: int) -> Array:
    dtype = dtypes.from_onnx(place.type)
    raw = np.frombuffer(view, np.uint8, prod(place.shape) * dtype.itemsize, offset)
    array: Array = raw.view(dtype).reshape(place.shape)
    return array


_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE = msgspec.msgpack.Decoder(dict[str, Place]).decode
