"""Opsets: brings models of old opsets to the first one that the rules describe."""

from __future__ import annotations

import onnx
from onnx import version_converter

from ...comm.errors import ModelError

OLDEST = 13
"""The oldest opset of ONNX's own operators that the rules describe."""


def modern(model: onnx.ModelProto, path: str) -> onnx.ModelProto:
    """The model in opset 13, or as it is if its opset is later; ModelError where ONNX cannot."""
    opsets = [one.version for one in model.opset_import if one.domain in ("", "ai.onnx")]
    if not opsets or opsets[0] >= OLDEST:
        return model
    try:
        return version_converter.convert_version(model, OLDEST)
    except Exception as error:  # RuntimeError and the converter's own kinds, which have no base
        raise ModelError(
            f"{path}: has opset {opsets[0]}, and {OLDEST} or later is needed. ONNX's converter "
            f"does not bring it there: {error}. Export the model with opset {OLDEST} or later."
        ) from error
