"""A stand-in for CUDA's driver (cuda.bindings.driver) whose GPU memory is memory files of the host.

It keeps the driver's rules that the code under test could break: sizes in whole granules, a context
for every call, access rights of mappings, and every object released. Its pointers are addresses of
the process, so that onnxruntime can bind them as memory of the CPU.
"""

from __future__ import annotations

import ctypes
import enum
import mmap
import os
import sys
import threading
from types import ModuleType, SimpleNamespace
from typing import Any

GRANULE = 2 << 20
_FIXED, _SHARED, _PRIVATE, _ANONYMOUS = 0x10, 0x01, 0x02, 0x20
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]
_LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

CUresult = enum.Enum(
    "CUresult",
    [
        "CUDA_SUCCESS",
        "CUDA_ERROR_OUT_OF_MEMORY",
        "CUDA_ERROR_INVALID_VALUE",
        "CUDA_ERROR_INVALID_DEVICE",
        "CUDA_ERROR_INVALID_CONTEXT",
        "CUDA_ERROR_UNKNOWN",
    ],
)
CUdevice_attribute = enum.Enum(
    "CUdevice_attribute",
    [
        "CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED",
        "CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED",
    ],
)
CUmemAllocationGranularity_flags = enum.Enum(
    "CUmemAllocationGranularity_flags", ["CU_MEM_ALLOC_GRANULARITY_MINIMUM"]
)
CUmemAllocationType = enum.Enum("CUmemAllocationType", ["CU_MEM_ALLOCATION_TYPE_PINNED"])
CUmemLocationType = enum.Enum("CUmemLocationType", ["CU_MEM_LOCATION_TYPE_DEVICE"])
CUmemAllocationHandleType = enum.Enum(
    "CUmemAllocationHandleType", ["CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR"]
)


class CUmemAccess_flags(enum.Enum):
    CU_MEM_ACCESS_FLAGS_PROT_READ = mmap.PROT_READ
    CU_MEM_ACCESS_FLAGS_PROT_READWRITE = mmap.PROT_READ | mmap.PROT_WRITE


class CUmemAllocationProp(SimpleNamespace):
    def __init__(self) -> None:
        super().__init__(
            type=None, location=SimpleNamespace(type=None, id=None), requestedHandleTypes=None
        )


class CUmemAccessDesc(SimpleNamespace):
    def __init__(self) -> None:
        super().__init__(location=None, flags=None)


class CUipcMemHandle:
    def __init__(self) -> None:
        self._bytes = ctypes.create_string_buffer(64)

    def getPtr(self) -> int:
        return ctypes.addressof(self._bytes)


class State:
    """What the process has of the stand-in, and how it is to behave."""

    def __init__(self) -> None:
        self.handles: dict[int, int] = {}  # to a descriptor each
        self.ranges: dict[int, int] = {}  # reserved addresses, and their sizes
        self.maps: dict[int, tuple[int, int]] = {}  # mapped ones, their sizes and rights
        self.legacy: dict[int, int] = {}  # addresses to descriptors
        self.registered: dict[int, int] = {}  # the host's addresses, and sizes
        self.descriptors = True
        self.failing: dict[str, CUresult] = {}
        self.contexts = threading.local()

    @property
    def empty(self) -> bool:
        """Whether everything was given back."""
        return not (self.handles or self.ranges or self.maps or self.legacy or self.registered)


STATE = State()
_OK, _BAD = CUresult.CUDA_SUCCESS, CUresult.CUDA_ERROR_INVALID_VALUE


def cuInit(flags: int) -> tuple[Any, ...]:
    return (_OK,)


def cuDeviceGet(number: int) -> tuple[Any, ...]:
    return (_OK, number) if number == 0 else (CUresult.CUDA_ERROR_INVALID_DEVICE, None)


def cuDevicePrimaryCtxRetain(device: int) -> tuple[Any, ...]:
    return _OK, "the context"


def cuDeviceGetUuid(device: int) -> tuple[Any, ...]:
    return _OK, SimpleNamespace(bytes=bytes(range(16)))


def cuDeviceGetAttribute(attribute: CUdevice_attribute, device: int) -> tuple[Any, ...]:
    return _OK, int(STATE.descriptors)


def cuCtxPushCurrent(context: str) -> tuple[Any, ...]:
    STATE.contexts.depth = getattr(STATE.contexts, "depth", 0) + 1
    return (_OK,)


def cuCtxPopCurrent() -> tuple[Any, ...]:
    STATE.contexts.depth -= 1
    return _OK, "the context"


def cuMemGetAllocationGranularity(made: CUmemAllocationProp, option: Any) -> tuple[Any, ...]:
    return _OK, GRANULE


def cuMemCreate(size: int, made: CUmemAllocationProp, flags: int) -> tuple[Any, ...]:
    if (
        size % GRANULE
        or not size
        or made.location.id != 0
        or made.type is None
        or made.requestedHandleTypes is None
    ):
        return _BAD, None
    fd = os.memfd_create("gpu")
    os.ftruncate(fd, size)
    return _OK, _handle(fd)


def cuMemExportToShareableHandle(handle: int, kind: Any, flags: int) -> tuple[Any, ...]:
    return _OK, os.dup(STATE.handles[handle])


def cuMemImportFromShareableHandle(fd: int, kind: Any) -> tuple[Any, ...]:
    return _OK, _handle(os.dup(fd))


def cuMemRelease(handle: int) -> tuple[Any, ...]:
    os.close(STATE.handles.pop(handle))
    return (_OK,)


def cuMemAddressReserve(size: int, alignment: int, address: int, flags: int) -> tuple[Any, ...]:
    at = _LIBC.mmap(None, size, 0, _PRIVATE | _ANONYMOUS, -1, 0)
    STATE.ranges[at] = size
    return _OK, at


def cuMemAddressFree(pointer: int, size: int) -> tuple[Any, ...]:
    if pointer in STATE.maps or STATE.ranges.pop(pointer) != size:
        return (_BAD,)
    _LIBC.munmap(pointer, size)
    return (_OK,)


def cuMemMap(pointer: int, size: int, offset: int, handle: int, flags: int) -> tuple[Any, ...]:
    if STATE.ranges[pointer] < size or os.fstat(STATE.handles[handle]).st_size < size:
        return (_BAD,)
    _LIBC.mmap(pointer, size, 0, _FIXED | _SHARED, STATE.handles[handle], offset)
    STATE.maps[pointer] = size, 0
    return (_OK,)


def cuMemSetAccess(
    pointer: int, size: int, access: list[CUmemAccessDesc], count: int
) -> tuple[Any, ...]:
    rights = access[0].flags.value
    _LIBC.mprotect(pointer, size, rights)
    STATE.maps[pointer] = size, rights
    return (_OK,)


def cuMemUnmap(pointer: int, size: int) -> tuple[Any, ...]:
    del STATE.maps[pointer]
    _LIBC.mmap(pointer, size, 0, _FIXED | _PRIVATE | _ANONYMOUS, -1, 0)
    return (_OK,)


def cuMemAlloc(size: int) -> tuple[Any, ...]:
    fd = os.memfd_create("gpu")
    os.ftruncate(fd, size)
    return _OK, _legacy(fd, size)


def cuMemFree(pointer: int) -> tuple[Any, ...]:
    _LIBC.munmap(pointer, STATE.maps.pop(pointer)[0])
    os.close(STATE.legacy.pop(pointer))
    return (_OK,)


def cuIpcGetMemHandle(pointer: int) -> tuple[Any, ...]:
    handle = CUipcMemHandle()
    text = f"/proc/{os.getpid()}/fd/{STATE.legacy[pointer]}".encode()
    ctypes.memmove(handle.getPtr(), text, len(text))
    return _OK, handle


def cuIpcOpenMemHandle(handle: CUipcMemHandle, flags: int) -> tuple[Any, ...]:
    fd = os.open(ctypes.string_at(handle.getPtr(), 64).rstrip(b"\0"), os.O_RDWR)
    return _OK, _legacy(fd, os.fstat(fd).st_size)


cuIpcCloseMemHandle = cuMemFree


def cuMemcpyHtoD(pointer: int, source: int, size: int) -> tuple[Any, ...]:
    return (_copy(pointer, source, pointer, size, mmap.PROT_WRITE),)


def cuMemcpyDtoH(target: int, pointer: int, size: int) -> tuple[Any, ...]:
    return (_copy(target, pointer, pointer, size, mmap.PROT_READ),)


def cuMemcpyDtoDAsync(target: int, source: int, size: int, stream: int) -> tuple[Any, ...]:
    """One of the two is memory of another library here: a tensor of a CPU."""
    written = any(start <= target < start + one for start, (one, _) in STATE.maps.items())
    pointer, wanted = (target, mmap.PROT_WRITE) if written else (source, mmap.PROT_READ)
    return (_copy(target, source, pointer, size, wanted),)


def cuMemHostRegister(address: int, size: int, flags: int) -> tuple[Any, ...]:
    if address % mmap.PAGESIZE or size % mmap.PAGESIZE or address in STATE.registered:
        return (_BAD,)
    STATE.registered[address] = size
    return (_OK,)


def cuMemHostUnregister(address: int) -> tuple[Any, ...]:
    return (_OK if STATE.registered.pop(address, None) else _BAD,)


def cuStreamSynchronize(stream: int) -> tuple[Any, ...]:
    return (_OK,)


def _copy(target: int, source: int, pointer: int, size: int, wanted: int) -> CUresult:
    allowed = any(
        start <= pointer and pointer + size <= start + length and rights & wanted
        for start, (length, rights) in STATE.maps.items()
    )
    if allowed:
        ctypes.memmove(target, source, size)
    return _OK if allowed else _BAD


def _handle(fd: int) -> int:
    number = max(STATE.handles, default=0) + 1
    STATE.handles[number] = fd
    return number


def _legacy(fd: int, size: int) -> int:
    rights = mmap.PROT_READ | mmap.PROT_WRITE
    at: int = _LIBC.mmap(None, size, rights, _SHARED, fd, 0)
    STATE.legacy[at], STATE.maps[at] = fd, (size, rights)
    return at


_FREE = {
    "cuInit",
    "cuDeviceGet",
    "cuDevicePrimaryCtxRetain",
    "cuDeviceGetUuid",
    "cuDeviceGetAttribute",
    "cuCtxPushCurrent",
    "cuCtxPopCurrent",
}  # of a context


def _checked(name: str) -> Any:
    """A function of the stand-in that fails where it is told to, or without a context."""
    function = globals()[name]

    def call(*arguments: Any) -> tuple[Any, ...]:
        if name in STATE.failing:
            return STATE.failing[name], None
        if name not in _FREE and not getattr(STATE.contexts, "depth", 0):
            return CUresult.CUDA_ERROR_INVALID_CONTEXT, None
        return function(*arguments)

    return call


def modules() -> dict[str, ModuleType]:
    """What `from cuda.bindings import driver` is to find in sys.modules."""
    package, bindings, driver = (
        ModuleType(name) for name in ("cuda", "cuda.bindings", "cuda.bindings.driver")
    )
    for name, value in globals().items():
        if name.startswith("CU"):
            setattr(driver, name, value)
        elif name.startswith("cu"):
            setattr(driver, name, _checked(name))
    package.bindings, bindings.driver = bindings, driver  # type: ignore[attr-defined]
    return {"cuda": package, "cuda.bindings": bindings, "cuda.bindings.driver": driver}


def use_for_models() -> None:
    """Let models of this process run "on the GPU": onnxruntime's CPU, with weights in the
    stand-in's memory.
    """
    from rankmesh.worker.executors import onnxruntime, prepared_segment
    from rankmesh.worker.session import hardware as device

    sys.modules.update(modules())
    device.gpu_count, device.cuda_works = lambda: 1, lambda: True  # type: ignore[assignment]
    onnxruntime.PROVIDERS["gpu"] = []
    prepared_segment.GPU_DEVICE = "cpu"
