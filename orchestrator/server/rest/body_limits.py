"""Limits of bodies: bound their bytes by the needs of a model, and by what is decoded at once."""

from __future__ import annotations

from math import prod

from ..catalog import ModelDescription, TensorDescription
from ..http.exchange import BadRequest, BodyStream
from ..inflation import decoded_bytes

MOST_BESIDE = 1 << 20
"""Bytes of a document beside the elements of its tensors."""

_ELEMENT_BYTES = 128
"""Of an element in JSON, with its indentation and the brackets of its lists."""


def most_inflated(model: ModelDescription, limit: int) -> int:
    """How many bytes a body for a model may have when it is inflated."""
    return min(decoded_bytes(limit), _needed(model))


def require_size(model: ModelDescription, length: int, document: int, limit: int) -> None:
    """BadRequest where a body, of which the first bytes are a document, is too long for a model."""
    if length <= MOST_BESIDE:
        return
    most = decoded_bytes(limit)
    if document > most:
        raise BadRequest(
            413, f"the document has {document} bytes, and may have {most}: send tensors in binary."
        )
    needed = _needed(model)
    if length > needed:
        raise BadRequest(
            413,
            f"the body has {length} bytes, and the inputs of {model.name} need {needed} at most.",
        )


async def small_body(body: BodyStream) -> bytes:
    """The body of a request that brings no tensors; BadRequest where it is a long one."""
    if (body.length or 0) <= MOST_BESIDE:
        content = await body.read_rest()
        if len(content) <= MOST_BESIDE:
            return content
    raise BadRequest(
        413, f"the body has more than {MOST_BESIDE} bytes, and no tensors are expected."
    )


def _needed(model: ModelDescription) -> int:
    """The most bytes that inputs can need, in any form: without a limit where sizes are open."""
    counts = [_most_elements(one) for one in model.inputs.values()]
    return MOST_BESIDE + _ELEMENT_BYTES * sum(counts)


def _most_elements(tensor: TensorDescription) -> int:
    shape = tensor.shape
    if tensor.max_batch:
        shape = (tensor.max_batch, *shape[1:])
    return _OPEN if tensor.strings or min(shape, default=0) < 0 else prod(shape)


_OPEN = 1 << 48
