"""From what a caller hands to `predict` to the arrays that a program takes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from numpy.typing import NDArray

from ..comm.errors import InputError
from ..comm.tensor import Tensor
from .plan import Signature

Array = NDArray[Any]


def feed(signatures: Sequence[Signature], shapes: Sequence[list[int]],
         values: Sequence[Tensor | Array]) -> dict[str, Array]:
    """One array per input, by name. `shapes` are those that the inputs have now, -1 where none was chosen.

    An array of another shape but of the right size in bytes is taken as if it had the input's shape.
    Raises InputError, naming the input.
    """
    return {signature.name: _fitted(signature, shape, _array(signature, value))
            for signature, shape, value in zip(signatures, shapes, values, strict=True)}


def fits(signature: Signature, shape: Sequence[int]) -> bool:
    """Whether an input may have this shape as its program was built."""
    declared = signature.type.shape
    return declared is None or (len(declared) == len(shape) and all(
        want < 0 or want == have for want, have in zip(declared, shape, strict=True)))


def _array(signature: Signature, value: Tensor | Array) -> Array:
    array = value.data() if isinstance(value, Tensor) else value
    if array is None:
        raise InputError(f"the input '{signature.name}' never got any data: call set_data_from_numpy.")
    return array


def _fitted(signature: Signature, shape: list[int], array: Array) -> Array:
    wanted = signature.type.dtype
    if array.dtype != wanted:
        raise InputError(f"the input '{signature.name}' is {array.dtype}, expected {wanted}: convert it with "
                         f"astype.")
    if list(array.shape) == shape:
        return array
    if min(shape, default=0) >= 0 and array.nbytes == prod(shape) * wanted.itemsize:
        return array.reshape(shape)
    if fits(signature, array.shape):
        return array
    raise InputError(f"the input '{signature.name}' has the shape {list(array.shape)}, expected {list(shape)} (-1: "
                     f"any): pass that, or call resize first.")
