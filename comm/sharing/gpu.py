"""GPU of NVIDIA: calls of CUDA's driver, in the context that onnxruntime and torch use too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import OutOfMemory, UsageError

_INSTALL = "Install rankmesh[gpu] and NVIDIA's driver, or run on the CPU (RANKMESH_DEVICE=cpu)."


class Gpu:
    """The GPU `number`, as CUDA counts those that this process may use; `name` is the same in every
    process.
    """

    def __init__(self, number: int) -> None:
        """UsageError where cuda-python or the driver is missing, or there is no such GPU."""
        self.number = number
        self.cuda = _driver()
        self.call("cuInit", 0)
        self._device = self.call("cuDeviceGet", number)
        self._context = self.call("cuDevicePrimaryCtxRetain", self._device)
        self.name = f"gpu {bytes(self.call('cuDeviceGetUuid', self._device).bytes).hex()}"

    @property
    def has_descriptors(self) -> bool:
        """Whether memory of this GPU can be handed over as a descriptor (virtual memory
        management).
        """
        listed = self.cuda.CUdevice_attribute
        return all(
            self.call("cuDeviceGetAttribute", attribute, self._device)
            for attribute in (
                listed.CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                listed.CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
            )
        )

    def call(self, function: str, *arguments: Any) -> Any:
        """Call a function of the driver; returns its value.

        Raises OutOfMemory or UsageError with CUDA's name of the failure.
        """
        status, *values = getattr(self.cuda, function)(*arguments)
        codes = self.cuda.CUresult
        if status == codes.CUDA_ERROR_OUT_OF_MEMORY:
            raise OutOfMemory(
                f"GPU {self.number} has no memory left ({function}): end other "
                "processes there, or use another GPU."
            )
        if status != codes.CUDA_SUCCESS:
            raise UsageError(f"GPU {self.number}: {function} failed with {status.name}. {_INSTALL}")
        return values[0] if values else None

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make this GPU the current one of this thread."""
        self.call("cuCtxPushCurrent", self._context)
        try:
            yield
        finally:
            self.call("cuCtxPopCurrent")


def _driver() -> Any:
    """cuda-python's functions of the driver, of which one was called: it finds the driver's library
    then.
    """
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise UsageError(
            "shared memory of a GPU needs cuda-python, and it cannot be imported "
            f"({error}). {_INSTALL}"
        ) from error
    try:
        driver.cuInit(0)
    except RuntimeError as error:
        raise UsageError(
            "shared memory of a GPU needs NVIDIA's driver, which cannot be used here: "
            f"{str(error).rstrip('.')}. {_INSTALL}"
        ) from error
    return driver
