"""Raw requests: a body that is nothing but the one input of a model."""

from __future__ import annotations

from math import prod

from ....comm.errors import InputError
from ..catalog import ModelDescription
from .infer_request import BINARY_SIZE
from .messages import InferMessage, InputMessage


def raw_message(model: ModelDescription, size: int) -> InferMessage:
    """The document that a body of `size` bytes stands for; all outputs are sent in binary.

    InputError where the model has several inputs, or the size does not tell the shape.
    """
    if model.has_strings:
        raise _unfit(model, "no strings, and this one has BYTES")
    if len(model.inputs) != 1:
        raise _unfit(model, f"one input, and this one has {list(model.inputs)}")
    (tensor,) = model.inputs.values()
    shape = tensor.spec.shape
    if shape is None or shape.count(-1) > 1:
        raise _unfit(model, f"an input with at most one open size, and this one has {shape}")
    rest = prod(one for one in shape if one >= 0) * tensor.dtype.itemsize
    if -1 in shape and (not rest or size % rest):
        raise InputError(
            f"{model.name}: the body has {size} bytes, expected a multiple of {rest} for the shape "
            f"{list(shape)} of the input '{tensor.name}'."
        )
    found = [size // rest if one < 0 else one for one in shape]
    given = InputMessage(tensor.name, found, tensor.datatype, {BINARY_SIZE: size})
    return InferMessage([given], parameters={"binary_data_output": True})


def _unfit(model: ModelDescription, needed: str) -> InputError:
    return InputError(
        f"{model.name}: a body without a document (Inference-Header-Content-Length: 0) needs a "
        f"model with {needed}. Send a document."
    )
