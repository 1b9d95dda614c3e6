"""Frameworks: tells which models can be converted, and the way by ONNX for the others."""

from __future__ import annotations

from ...comm.errors import UsageError
from ...comm.job.other_kinds import CAFFE, OM, OTHER_KINDS, PYTORCH, TF, TFLITE

READ = ("ONNX", "MINDIR", "MSLITE")
_OTHERS = {"PYTORCH": PYTORCH, "TF": TF, "TFLITE": TFLITE, "CAFFE": CAFFE, "OM": OM}


def require_readable(framework: str) -> None:
    """UsageError, with the way by ONNX, for a framework whose models are not read."""
    if framework not in (*READ, *_OTHERS):
        known = ", ".join((*READ, *_OTHERS))
        raise UsageError(f"the framework '{framework}' is unknown: expected one of {known}.")
    if framework in _OTHERS:
        remedy = OTHER_KINDS[_OTHERS[framework]].remedy
        raise UsageError(f"models of {framework} are not read. {remedy}")
