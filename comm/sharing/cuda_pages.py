"""CUDA pages: the host's memory that a GPU reads and writes by itself, as it is registered there.

https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MEM.html (cuMemHostRegister).
"""

from __future__ import annotations

from ..errors import RankmeshError
from ..loggers import LOG
from .gpu import Gpu

_ALL_CONTEXTS = 1  # CU_MEMHOSTREGISTER_PORTABLE


class CudaPages:
    """See PageRegistrar: pages registered with one NVIDIA GPU.

    Where the driver refuses, copies go through other pinned memory; a warning says so once.
    """

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._registered: set[int] = set()
        self._refused = False

    def register(self, address: int, size: int) -> None:
        """See PageRegistrar."""
        if self._refused:
            return
        try:
            with self._gpu.current():
                self._gpu.call("cuMemHostRegister", address, size, _ALL_CONTEXTS)
        except RankmeshError as error:
            self._refused = True
            LOG.warning(
                "the memory of requests is not registered with GPU %d, and tensors are copied once "
                "more: %s",
                self._gpu.number,
                error,
            )
        else:
            self._registered.add(address)

    def unregister(self, address: int) -> None:
        """See PageRegistrar."""
        if address in self._registered:
            self._registered.remove(address)
            with self._gpu.current():
                self._gpu.call("cuMemHostUnregister", address)
