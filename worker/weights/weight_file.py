"""Weight file: weights in one memory file, which begins with the places of all tensors."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from math import prod

import msgspec
import numpy as np

from ...comm.arrays import Array
from ...comm.decoding import guarded
from ...comm.errors import UsageError
from ...comm.host.sealed_memory import SealedMemory, map_read_only
from ...comm.sharing.device_memory import DeviceArray, DeviceMemory, MemoryDevice, Ticket
from ...compiler.element_types import dtypes
from .store import Stored, WeightType

_LENGTH = struct.Struct("<Q")
_ALIGN = 4096
_FINE = 256  # bytes, for tensors that are smaller than a page; CUDA's own allocations are as fine


class StoredTensor(msgspec.Struct, frozen=True):
    """One tensor: its ONNX element type and shape, and the offsets of its copies in bytes."""

    type: int
    shape: tuple[int, ...]
    offsets: tuple[int, ...]


class WeightFileHeader(msgspec.Struct, frozen=True):
    """The header of a file: the tensors, and `ticket` where they lie in memory of a GPU instead."""

    places: dict[str, StoredTensor]
    ticket: Ticket | None = None


class WeightFile:
    """Tensors by name, each in as many copies as the file was made for."""

    def __init__(
        self,
        arrays: Mapping[str, tuple[Stored, ...]],
        taken: int,
        made: Sequence[SealedMemory | DeviceMemory] = (),
    ) -> None:
        """`taken` is how many descriptors it was opened from; `made` is memory made here."""
        self.arrays = dict(arrays)
        self.taken = taken
        self._made = made

    @classmethod
    def create(
        cls,
        label: str,
        kinds: Mapping[str, WeightType],
        copies: int = 1,
        gpu: MemoryDevice | None = None,
    ) -> WeightFile:
        """Create a file for tensors of these types, with writable `arrays`, on the host zero."""
        if gpu:
            return cls._on(gpu, label, kinds, copies)
        start = _round(
            _LENGTH.size + len(_ENCODE(WeightFileHeader(_lay_out(kinds, copies, 2**62)[0])))
        )  # its longest
        places, size = _lay_out(kinds, copies, start)
        memory = SealedMemory(label, max(size, start))
        _put(memory, _ENCODE(WeightFileHeader(places)))
        return cls(_arrays(places, memory.bytes), 1, [memory])

    @classmethod
    def open(cls, fds: Sequence[int], gpu: MemoryDevice | None = None) -> WeightFile:
        """Map the file behind the first descriptors that its maker handed over, with `arrays` to
        read.

        Raises UsageError.
        """
        try:
            view = map_read_only(fds[0])
            (length,) = _LENGTH.unpack_from(view)
            contents = HEADER_DECODER(view[_LENGTH.size : _LENGTH.size + length])
            if contents.ticket is None:
                return cls(_arrays(contents.places, view), 1)
            taken = 2 if contents.ticket.kind == "vmm" else 1
            if gpu is None or len(fds) < taken:
                raise ValueError("it lies on a GPU, and comes without its memory")
            memory = gpu.open(contents.ticket, fds[taken - 1])
            return cls(_device_arrays(contents.places, gpu, memory), taken)
        except (ValueError, OSError, struct.error, msgspec.DecodeError) as error:
            raise UsageError(
                f"the owner of the weights handed over what is no file of weights ({error}): run "
                "both with the same version of Rankmesh."
            ) from error

    @classmethod
    def _on(
        cls, gpu: MemoryDevice, label: str, kinds: Mapping[str, WeightType], copies: int
    ) -> WeightFile:
        places, size = _lay_out(kinds, copies, 0)
        device = gpu.create(max(size, 1))
        header = _ENCODE(WeightFileHeader(places, device.ticket))
        memory = SealedMemory(label, _LENGTH.size + len(header))
        _put(memory, header)
        return cls(_device_arrays(places, gpu, device), 1 + (device.fd >= 0), [memory, device])

    @property
    def fds(self) -> list[int]:
        """The descriptors to hand over, of a file made here."""
        return [memory.fd for memory in self._made if memory.fd >= 0]

    def close(self) -> None:
        """Close the descriptors; arrays stay."""
        for memory in self._made:
            memory.close()


def _put(memory: SealedMemory, header: bytes) -> None:
    memory.bytes[: _LENGTH.size] = _LENGTH.pack(len(header))
    memory.bytes[_LENGTH.size : _LENGTH.size + len(header)] = header


def _lay_out(
    kinds: Mapping[str, WeightType], copies: int, start: int
) -> tuple[dict[str, StoredTensor], int]:
    """The places of all tensors behind `start`, and the size of the file in bytes."""
    places, end = {}, start
    for name, kind in kinds.items():
        size, offsets = kind.nbytes, []
        for _ in range(copies):
            end = _round(end, _ALIGN if size >= _ALIGN else _FINE)
            offsets.append(end)
            end += size
        places[name] = StoredTensor(dtypes.to_onnx(kind.dtype), kind.shape, tuple(offsets))
    return places, end


def _round(size: int, step: int = _ALIGN) -> int:
    return -(-size // step) * step


def _arrays(places: Mapping[str, StoredTensor], view: memoryview) -> dict[str, tuple[Stored, ...]]:
    return {
        name: tuple(_array(view, place, offset) for offset in place.offsets)
        for name, place in places.items()
    }


def _array(view: memoryview, place: StoredTensor, offset: int) -> Array:
    dtype = dtypes.from_onnx(place.type)
    raw = np.frombuffer(view, np.uint8, prod(place.shape) * dtype.itemsize, offset)
    array: Array = raw.view(dtype).reshape(place.shape)
    return array


def _device_arrays(
    places: Mapping[str, StoredTensor], gpu: MemoryDevice, memory: DeviceMemory
) -> dict[str, tuple[Stored, ...]]:
    return {
        name: tuple(
            DeviceArray(gpu, memory, offset, dtypes.from_onnx(place.type), place.shape)
            for offset in place.offsets
        )
        for name, place in places.items()
    }


_ENCODE = msgspec.msgpack.Encoder().encode
HEADER_DECODER = guarded(msgspec.msgpack.Decoder(WeightFileHeader))
