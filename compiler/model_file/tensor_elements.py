"""Elements of tensors inside a file: as many as the tensor's shape says, in the field of its type.

onnxruntime refuses others when it loads a graph; other readers of a tensor would fail late.
"""

from __future__ import annotations

from onnx import TensorProto, checker

from ...comm.errors import ModelError
from ..onnx_graph.onnx_values import elements, stored_bytes


def check_elements(tensor: TensorProto, path: str) -> None:
    """ModelError where the elements of a tensor of the model at `path` do not fit its shape."""
    try:
        if tensor.HasField("raw_data") and tensor.data_type != TensorProto.STRING:
            _check_bytes(tensor)
        else:
            elements(tensor.dims)
            checker.check_tensor(tensor)
    except (ValueError, checker.ValidationError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ModelError(
            f"{path}: the tensor '{tensor.name}' is corrupt: {reason}. Export or copy the model "
            "again."
        ) from error


def _check_bytes(tensor: TensorProto) -> None:
    wanted, found = stored_bytes(tensor), len(tensor.raw_data)
    if found != wanted:
        raise ValueError(
            f"it has {found} bytes, expected {wanted} for its shape {list(tensor.dims)} and type"
        )
