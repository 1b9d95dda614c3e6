"""Providers: chooses those of onnxruntime for a kind of device, and their options."""

from __future__ import annotations

from typing import Any

import onnxruntime as ort

from ...comm.errors import UsageError

_CPU = "CPUExecutionProvider"
PROVIDERS = {"cpu": [], "gpu": ["CUDAExecutionProvider"], "ascend": ["CANNExecutionProvider"]}
_INSTALL = {"gpu": "rankmesh[gpu]", "ascend": "an onnxruntime that was built with CANN"}


def chosen_providers(device: str, device_id: int, tf32: bool) -> list[Any]:
    """The providers for a device, each with its options. Raises UsageError where one is missing.

    With `tf32` a GPU multiplies float32 numbers in TF32, as onnxruntime does by default.
    """
    wanted = PROVIDERS[device]
    missing = [name for name in wanted if name not in ort.get_available_providers()]
    if missing:
        present = ", ".join(ort.get_available_providers())
        raise UsageError(
            f"device {device}: this onnxruntime has no {missing[0]} (it has {present}). Install "
            f"{_INSTALL[device]}, or run on the CPU (--device cpu, RANKMESH_DEVICE=cpu)."
        )
    options = {"device_id": str(device_id)}
    if device == "gpu":
        options["use_tf32"] = str(int(tf32))
    return [(name, options) for name in wanted] + [_CPU]
