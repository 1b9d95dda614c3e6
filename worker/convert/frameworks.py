"""Frameworks: tells which models can be converted, and the way by ONNX for the others."""

from __future__ import annotations

from ...comm.errors import UsageError

READ = ("ONNX", "MINDIR")
_WAYS = {
    "PYTORCH": "export the module with torch.onnx.export, and convert that file with fmk ONNX",
    "TF": "make an ONNX file with `python -m tf2onnx.convert --saved-model FOLDER --output "
    "model.onnx`, and convert that with fmk ONNX",
    "TFLITE": "make an ONNX file with `python -m tf2onnx.convert --tflite FILE --output "
    "model.onnx`, and convert that with fmk ONNX",
    "CAFFE": "make an ONNX file with caffe2onnx or MMdnn, and convert that with fmk ONNX",
}


def require_readable(framework: str) -> None:
    """UsageError, with the way by ONNX, for a framework whose models are not read."""
    if framework in READ:
        return
    if framework not in _WAYS:
        known = ", ".join((*READ, *_WAYS))
        raise UsageError(f"the framework '{framework}' is unknown: expected one of {known}.")
    raise UsageError(f"models of {framework} are not read: {_WAYS[framework]}.")
