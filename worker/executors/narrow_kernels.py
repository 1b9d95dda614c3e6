"""Narrow kernels: the operators that onnxruntime computes in float16 and bfloat16."""

from __future__ import annotations

from functools import cache

from ...compiler.onnx_graph.element_types import TYPE_NAMES

_PROVIDERS = {
    "cpu": "CPUExecutionProvider",
    "gpu": "CUDAExecutionProvider",
    "ascend": "CANNExecutionProvider",
}


def has_narrow_kernel(
    device: str, element_type: int, op_type: str, domain: str, version: int
) -> bool:
    """Whether `op_type` of an opset has a kernel of the element type on a kind of device.

    Where onnxruntime lists no kernels of a GPU or NPU, it is taken to have all.
    """
    known = _kernels(_PROVIDERS[device], TYPE_NAMES[element_type])
    if not known and device != "cpu":
        return True
    return any(first <= version <= last for first, last in known.get((domain, op_type), ()))


@cache
def _kernels(provider: str, type_name: str) -> dict[tuple[str, str], list[tuple[int, int]]]:
    """The (first, last) opsets of a provider's kernels of a type, by domain and operator."""
    try:
        from onnxruntime.capi.onnxruntime_pybind11_state import get_all_opkernel_def
    except ImportError:  # an onnxruntime that was built without it
        return {}
    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for kernel in get_all_opkernel_def():
        if kernel.provider == provider and any(
            type_name in types for types in kernel.type_constraints.values()
        ):
            found.setdefault((kernel.domain, kernel.op_name), []).append(
                tuple(kernel.version_range)
            )
    return found
