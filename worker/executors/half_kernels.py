"""Which operators have float16 kernels on which device."""

from __future__ import annotations

from functools import cache
from typing import Any

_CPU = "CPUExecutionProvider"
_HALF = "tensor(float16)"


def has_half_kernel(device: str, op_type: str, domain: str, version: int) -> bool:
    """Whether `op_type` of an opset runs in float16 on `device`: GPUs and NPUs were made for that."""
    return device != "cpu" or any(first <= version <= last for first, last in _half_on_cpu().get((domain, op_type), ()))


@cache
def _half_on_cpu() -> dict[tuple[str, str], list[tuple[int, int]]]:
    """The opset versions for which this onnxruntime's CPU kernels take float16, by domain and operator."""
    try:
        from onnxruntime.capi.onnxruntime_pybind11_state import get_all_opkernel_def
    except ImportError:  # an onnxruntime that was built without it
        return {}
    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for kernel in get_all_opkernel_def():
        if kernel.provider == _CPU and _takes_half(kernel.type_constraints):
            found.setdefault((kernel.domain, kernel.op_name), []).append(tuple(kernel.version_range))
    return found


def _takes_half(constraints: dict[str, Any]) -> bool:
    return any(_HALF in types for types in constraints.values())
