"""Frameworks: tells which models can be converted, and the way by ONNX for the others."""

from __future__ import annotations

import os

from ...comm.errors import UsageError

READ = ("ONNX", "MINDIR", "MSLITE")
_WAYS = {
    "PYTORCH": "export the module with torch.onnx.export, and convert that file with fmk ONNX",
    "TF": "make an ONNX file with `python -m tf2onnx.convert --saved-model FOLDER --output "
    "model.onnx`, and convert that with fmk ONNX",
    "TFLITE": "make an ONNX file with `python -m tf2onnx.convert --tflite FILE --output "
    "model.onnx`, and convert that with fmk ONNX",
    "CAFFE": "make an ONNX file with caffe2onnx or MMdnn, and convert that with fmk ONNX",
    "OM": "convert the ONNX or MindIR file that it was compiled from",
}
_SUFFIXES = {".prototxt": "CAFFE", ".caffemodel": "CAFFE"}


def require_readable(framework: str, path: str) -> None:
    """UsageError, with the way by ONNX, for a framework whose models are not read, or a file that
    is plainly one of its models.
    """
    if framework not in (*READ, *_WAYS):
        known = ", ".join((*READ, *_WAYS))
        raise UsageError(f"the framework '{framework}' is unknown: expected one of {known}.")
    if framework in _WAYS:
        raise UsageError(f"models of {framework} are not read: {_WAYS[framework]}.")
    found = _framework_of(path)
    if found:
        raise UsageError(f"{path}: is a model of {found}, which is not read: {_WAYS[found]}.")


def _framework_of(path: str) -> str:
    """The framework that a file is of by its first bytes or its suffix; empty for none of these."""
    if os.path.isdir(path):
        return "TF" if os.path.exists(os.path.join(path, "saved_model.pb")) else ""
    try:
        with open(path, "rb") as file:
            head = file.read(8)
    except OSError:
        return ""  # the reader of the file tells what is wrong
    if head[4:] == b"TFL3":
        return "TFLITE"
    if head[:4] == b"PK\3\4":
        return "PYTORCH"
    return _SUFFIXES.get(os.path.splitext(path)[1], "")
