"""Shared memory calls: regions are registered, told, and forgotten."""

from __future__ import annotations

from ..faults import UnsupportedCall
from ..shared_memory.client_regions import NO_CUDA, ClientRegions, require_all_cuda_regions
from .calls import CallHandler, unary
from .protocol import inference

_Status = inference.SystemSharedMemoryStatusResponse
_Unregistered = inference.SystemSharedMemoryUnregisterResponse


class SharedMemoryCalls:
    """Answers from the regions of the server."""

    def __init__(self, regions: ClientRegions) -> None:
        self._regions = regions

    def handlers(self) -> dict[str, CallHandler]:
        """The handlers by the names of their methods."""
        return {
            "SystemSharedMemoryStatus": unary(
                inference.SystemSharedMemoryStatusRequest, self._status
            ),
            "SystemSharedMemoryRegister": unary(
                inference.SystemSharedMemoryRegisterRequest, self._register
            ),
            "SystemSharedMemoryUnregister": unary(
                inference.SystemSharedMemoryUnregisterRequest, self._unregister
            ),
            "CudaSharedMemoryStatus": unary(inference.CudaSharedMemoryStatusRequest, _cuda_status),
            "CudaSharedMemoryRegister": unary(
                inference.CudaSharedMemoryRegisterRequest, _refuse_cuda
            ),
            "CudaSharedMemoryUnregister": unary(
                inference.CudaSharedMemoryUnregisterRequest,
                lambda _: inference.CudaSharedMemoryUnregisterResponse(),
            ),
        }

    def _status(self, asked: inference.SystemSharedMemoryStatusRequest) -> _Status:
        found = self._regions.listed(asked.name)
        return _Status(
            regions={
                one.name: _Status.RegionStatus(
                    name=one.name, key=one.key, offset=one.offset, byte_size=one.size
                )
                for one in found
            }
        )

    def _register(
        self, asked: inference.SystemSharedMemoryRegisterRequest
    ) -> inference.SystemSharedMemoryRegisterResponse:
        self._regions.register(asked.name, asked.key, asked.offset, asked.byte_size)
        return inference.SystemSharedMemoryRegisterResponse()

    def _unregister(self, asked: inference.SystemSharedMemoryUnregisterRequest) -> _Unregistered:
        self._regions.unregister(asked.name)
        return _Unregistered()


def _cuda_status(
    asked: inference.CudaSharedMemoryStatusRequest,
) -> inference.CudaSharedMemoryStatusResponse:
    require_all_cuda_regions(asked.name)
    return inference.CudaSharedMemoryStatusResponse()


def _refuse_cuda(
    _: inference.CudaSharedMemoryRegisterRequest,
) -> inference.CudaSharedMemoryRegisterResponse:
    raise UnsupportedCall(NO_CUDA)
