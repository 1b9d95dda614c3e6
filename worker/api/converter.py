"""Converter: the names of MindSpore Lite's model conversion, which Rankmesh has no use for yet."""

from __future__ import annotations

from enum import Enum

from ...comm.errors import UsageError


class FmkType(Enum):
    """The framework that a model to convert comes from."""

    TF = 0
    CAFFE = 1
    ONNX = 2
    MINDIR = 3
    TFLITE = 4
    PYTORCH = 5


class Converter:
    """Model conversion, which is not there yet: making a Converter raises UsageError with the
    alternative.
    """

    def __init__(self) -> None:
        raise UsageError(
            "Converter is not part of Rankmesh yet. Model.build_from_file takes MindIR and ONNX "
            "files as they are; convert others with converter_lite --saveType=MINDIR, or export "
            "them to ONNX."
        )
