"""Providers: chooses those of onnxruntime for a kind of device, and their options.

https://onnxruntime.ai/docs/execution-providers/TensorRT-ExecutionProvider.html
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ...comm.errors import UsageError
from ...comm.loggers import LOG
from .base import DeviceStream
from .settings import TensorRtSettings

_CPU, _TENSORRT = "CPUExecutionProvider", "TensorrtExecutionProvider"
PROVIDERS = {"cpu": [], "gpu": ["CUDAExecutionProvider"], "ascend": ["CANNExecutionProvider"]}
_INSTALL = {"gpu": "rankmesh[gpu]", "ascend": "an onnxruntime that was built with CANN"}
_told: set[str] = set()  # once per process


def chosen_providers(
    device: str,
    device_id: int,
    present: Collection[str],
    tf32: bool = False,
    tensorrt: TensorRtSettings | None = None,
) -> list[Any]:
    """The providers for a device, each with its options. Raises UsageError where one is missing.

    `present` are those that this onnxruntime has.
    With `tf32` a GPU multiplies float32 numbers in TF32, as onnxruntime does by default.
    """
    wanted = PROVIDERS[device]
    missing = [name for name in wanted if name not in present]
    if missing:
        raise UsageError(
            f"device {device}: this onnxruntime has no {missing[0]} (it has {', '.join(present)}). "
            f"Install {_INSTALL[device]}, or run on the CPU (--device cpu, RANKMESH_DEVICE=cpu)."
        )
    options = {"device_id": str(device_id)}
    if device == "gpu":
        options["use_tf32"] = str(int(tf32))
    found: list[Any] = [(name, options) for name in wanted] + [_CPU]
    if device == "gpu" and tensorrt and _has_tensorrt(present):
        found.insert(0, (_TENSORRT, {"device_id": str(device_id), **tensorrt_options(tensorrt)}))
    return found


def _has_tensorrt(present: Collection[str]) -> bool:
    if _TENSORRT in present:
        return True
    if _TENSORRT not in _told:
        _told.add(_TENSORRT)
        LOG.warning("this onnxruntime has no %s: CUDA computes instead of TensorRT.", _TENSORRT)
    return False


def tensorrt_options(settings: TensorRtSettings) -> dict[str, str]:
    """The options of onnxruntime's TensorRT provider, without those of its device."""
    options = {"trt_fp16_enable": str(int(settings.half))}
    if settings.engines:
        for kind in ("engine", "timing"):
            options[f"trt_{kind}_cache_enable"] = "1"
            options[f"trt_{kind}_cache_path"] = settings.engines
    for at, name in enumerate(("min", "opt", "max")):
        shapes = [
            f"{value}:{'x'.join(map(str, profile[at]))}"
            for value, profiles in settings.profiles.items()
            for profile in profiles
        ]
        if shapes:
            options[f"trt_profile_{name}_shapes"] = ",".join(shapes)
    return options


def for_session(
    providers: list[Any], inputs: Collection[str], stream: Mapping[str, str]
) -> list[Any]:
    """The providers for a session with these inputs, which computes in a stream.

    TensorRT refuses shapes of inputs that a part of a model has not: there it finds them itself.
    """
    found: list[Any] = []
    for one in providers:
        if isinstance(one, str):
            found.append(one)
            continue
        name, options = one
        shapes = options.get("trt_profile_min_shapes", "")
        named = {shape.rpartition(":")[0] for shape in shapes.split(",") if shape}
        kept = {
            key: text
            for key, text in options.items()
            if named <= set(inputs) or not key.startswith("trt_profile_")
        }
        found.append((name, {**kept, **stream}))
    return found


def shared_stream(device: str, device_id: int) -> DeviceStream | None:
    """A stream for sessions and collectives; None where no torch computes on the device."""
    if device != "gpu" or not find_spec("torch"):
        return None
    open_stream = import_module(".torch.device_session", __package__).open_stream
    found: DeviceStream | None = open_stream(device_id)
    return found
